// Command model checks notifier.pml with spin: it runs the model under several
// sets of faults, exhaustively, and then each mutant of it, which must fail.
//
// It prints the states and transitions of each run, and of each mutant the step
// at which it fails and the promise that this breaks; with -stories also how. It
// exits with 1 if a run fails or a mutant does not, or if all took more than 480 s of
// processor time. With -record it writes all this to
// docs/records/model.txt.
package main
