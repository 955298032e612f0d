// Command model checks the protocol by which one notice is claimed, delivered and settled. The model checker spin
// (spinroot.com) searches the states of the model notifier.pml for a violated property. Each property must hold even
// after faults, such as crashes. The search is repeated for several configurations, called runs, which allow different
// faults.
//
// The command also searches mutants: copies of the model with one mistake each. The search must find a violation in
// every mutant. Otherwise the properties are too weak.
//
// For each run the command prints the numbers of states and transitions. For each mutant it prints the violated
// property and the step of the violation, with -stories also the steps before. With -record it writes these tables to
// docs/records/model.txt, if it exits with 0.
//
// It exits with 1 if a run finds a violation, if a mutant has none, if a program such as spin fails, or if all searches
// together took more than 480 s of processor time.
package main
