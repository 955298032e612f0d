package main

// run is one exhaustive search: a name, and the macros of the model.
type run struct {
	name string
	ends bool // search for a notice that is never finalized, under weak fairness; else for a broken promise
	with []string
}

var runs = []run{
	{"callbacks, two faults", false, []string{"FAULTS=2", "CHANGES=0"}},
	{"callbacks, a fault and a change", false, []string{"FAULTS=1", "CHANGES=1"}},
	{"callbacks, longer leases, a fault", false, []string{"FAULTS=1", "CHANGES=0", "LEASE=2", "DEFERS=1"}},
	{"Redis forgets its last writes", false, []string{"FAULTS=1", "CHANGES=0", "RESTARTS=1", "CRASHES=0", "LOSSES=0", "COUNTOUTS=0"}},
	{"Redis forgets, a fault and a change", false, []string{"FAULTS=2", "CHANGES=1", "RESTARTS=1", "INSTANCES=1"}},
	{"consumers report", false, []string{"FAULTS=0", "CHANGES=0", "REPORT=1"}},
	{"consumers report, a fault and a change", false, []string{"FAULTS=1", "CHANGES=1", "REPORT=1", "INSTANCES=1"}},
	{"all ends: callbacks, a fault and a change", true, []string{"TIMELY=1", "FAULTS=1", "CHANGES=1"}},
	{"all ends: handlers that kill, a fault", true, []string{"TIMELY=1", "FAULTS=1", "CHANGES=0", "POISON=1", "LEASE=2"}},
	{"all ends: Redis forgets its last writes", true, []string{"TIMELY=1", "FAULTS=1", "CHANGES=0", "RESTARTS=1"}},
	{"all ends: consumers report, a fault", true, []string{"TIMELY=1", "FAULTS=1", "CHANGES=0", "REPORT=1", "DEFERS=1", "INSTANCES=1"}},
}

// mutant is a line of a script that is wrong, by its name in the model, and the
// run that must notice.
type mutant struct {
	name string
	what string
	ends bool
	with []string
}

var (
	callbacks = []string{"FAULTS=1", "CHANGES=1"}
	reports   = []string{"FAULTS=0", "CHANGES=1", "REPORT=1", "INSTANCES=1"}
	calm      = []string{"TIMELY=1", "FAULTS=0", "CHANGES=0"}
	poison    = []string{"TIMELY=1", "FAULTS=0", "CHANGES=0", "POISON=1"}
)

var mutants = []mutant{
	{"CLAIM_WITHOUT_NX", "a claim is set over another", false, callbacks},
	{"CLAIM_WITHOUT_DUE", "a claim does not check that the notice is due", false, callbacks},
	{"CLAIM_KEEPS_SCORE", "a claim does not change the score", false, callbacks},
	{"LAPSE_WITHOUT_COUNT", "a claim does not count the expired lease before it", true, poison},
	{"NO_GUARD", "expired leases use no attempts", true, poison},
	{"NO_SWEEP", "there is no sweep: a notice whose event is lost is lost", true, calm},
	{"RECOVER_WITHOUT_TOKEN", "a recovery after a lost reply returns another call's claims", false, callbacks},
	{"TAKEOVER_OF_THE_LIVING", "a take-over takes claims of live instances", false, callbacks},
	{"TAKEOVER_WITHOUT_TOKEN", "a take-over keeps the old token", false, callbacks},
	{"SETTLE_WITHOUT_TOKEN", "a settle does not check the token", false, callbacks},
	{"SETTLE_WITHOUT_SCORE", "a settle without a claim does not check the score", false, callbacks},
	{"SETTLE_WITHOUT_MAKING", "a settle without a claim does not check the generation", false, []string{"FAULTS=0", "CHANGES=2",
		"INSTANCES=1"}},
	{"RETRY_WITHOUT_SHADOW", "a retry does not go back into the shadow", false, callbacks},
	{"TOUCH_WITHOUT_MINUS_ONE", "timers expire at the due time, not 1 ms before it", false, callbacks},
	{"REPLACE_KEEPS_CLAIM", "a replace leaves the old notice's claim", false, callbacks},
	{"REPLACE_KEEPS_MAKING", "a replace gives the new notice the old one's generation", false, reports},
	{"CANCEL_KEEPS_CLAIM", "a cancel leaves the claim", false, callbacks},
	{"RESCHEDULE_OF_CLAIMED", "a reschedule changes a claimed notice", false, callbacks},
	{"REPORT_WITHOUT_MAKING", "a report names the attempt only, not the notice", false, reports},
	{"REPORT_WITHOUT_ATTEMPT", "a report names the notice only, not the attempt", false, reports},
}
