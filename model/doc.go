// Command model checks notifier.pml with spin. It searches the model exhaustively under several
// sets of faults, and then each mutant, which must fail.
//
// For each run it prints the states and transitions. For each mutant it prints the step at which
// the mutant fails and the broken promise, and with -stories the steps to the failure. With
// -record it also writes the output to docs/records/model.txt.
//
// It exits with 1 if a run fails, if a mutant does not fail, or if the runs took more than 480 s
// of processor time.
package main
