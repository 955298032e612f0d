// Command model verifies the protocol of one notice, notifier.pml, with the model checker spin. It searches all states
// under several sets of faults. Then it searches each mutant, a model with one fault added, which must fail.
//
// For each run it prints the numbers of states and transitions. For each mutant it prints the step at which the mutant
// fails and the broken promise. With -stories it prints the steps to the failure too. With -record it also writes the
// output to docs/records/model.txt.
//
// It exits with 1 if a run fails, if a mutant does not fail, or if all runs together took more than 480 s of processor
// time.
package main
