/*
 * One notice key of notifier: its making, delivery and end, with every fault
 * that the promises of docs/reliability.md speak of. Each inline that begins
 * with "script" is one Lua script, which Redis runs at once; between two of them
 * anything may happen. docs/reliability.md maps each transition to its lines.
 *
 * Time is relative: whatever will happen has a count of ticks that are left, and
 * Clock takes one from each. A key of Redis goes when now > its ms, so it has
 * one tick more than the time it was given.
 *
 * Two numbers stand for what is unique in practice: tokens, which are random,
 * and scores, which are times: a fresh one is one that nobody has any more.
 *
 * Macros say what a run holds (model.go has the runs) and, as MUTANT, which line
 * is wrong. What is printed is the story when a failure is played again.
 */

#ifndef INSTANCES
#define INSTANCES 2
#endif
#ifndef FAULTS		/* so many in all, of those that are on: */
#define FAULTS 2
#endif
#ifndef CRASHES		/* 1: an instance dies */
#define CRASHES 1
#endif
#ifndef LOSSES		/* 1: the reply to a script is lost */
#define LOSSES 1
#endif
#ifndef COUNTOUTS	/* 1: an instance lives, has lost its connections, and is taken for dead */
#define COUNTOUTS 1
#endif
#ifndef RESTARTS	/* so many: Redis restarts, and forgets its last writes */
#define RESTARTS 0
#endif
#ifndef STALLS		/* 1: an instance stops for longer than its lease; without TIMELY it may always */
#define STALLS 1
#endif
#ifndef POISON		/* 1: a handler may end its process, each time, and that is no fault */
#define POISON 0
#endif
#ifndef CHANGES		/* of mind: replace, cancel, reschedule, redrive */
#define CHANGES 1
#endif
#ifndef DEFERS		/* of an attempt by its handler, or a report */
#define DEFERS 0
#endif
#ifndef REPORT		/* 1: the target is a list, whose consumer reports */
#define REPORT 0
#endif
#ifndef TIMELY		/* 1: no instance stops for longer than its lease */
#define TIMELY 0
#endif
#define DELAY	1	/* of a schedule call */
#define STEP	1	/* of the ladder */
#ifndef LEASE
#define LEASE 1
#endif
#define ATTEMPTS 2	/* of a making; interrupted ones count */
#define MAKINGS	(1 + CHANGES + RESTARTS)
#define LAPSES	3	/* so many are counted; lua stops at 499 */


/* Where a notice is: which zset has it. */
#define NONE 0
#define SHADOW 1
#define DELIVERED 2
#define CANCELLED 3
#define DEAD 4

#define NOBODY 0
#define PER 4				/* tokens of one instance: in Redis, on disk, in hand, and a fresh one */
#define CONSUMER (1 + INSTANCES * PER)	/* the token "report:<made>:<attempt>" */
#define HOLDER(t) (((t) - 1) / PER)

/* MUTANTS */
#define CLAIM_WITHOUT_NX 1
#define SETTLE_WITHOUT_TOKEN 2
#define TOUCH_WITHOUT_MINUS_ONE 3
#define SETTLE_WITHOUT_SCORE 4
#define SETTLE_WITHOUT_MAKING 5
#define CLAIM_WITHOUT_DUE 6
#define LAPSE_WITHOUT_COUNT 7
#define TAKEOVER_OF_THE_LIVING 8
#define TAKEOVER_WITHOUT_TOKEN 9
#define REPLACE_KEEPS_CLAIM 10
#define REPLACE_KEEPS_MAKING 11
#define CANCEL_KEEPS_CLAIM 12
#define REPORT_WITHOUT_MAKING 13
#define REPORT_WITHOUT_ATTEMPT 14
#define RECOVER_WITHOUT_TOKEN 15
#define NO_SWEEP 16
#define RETRY_WITHOUT_SHADOW 17
#define NO_GUARD 18
#define RESCHEDULE_OF_CLAIMED 19
#define CLAIM_KEEPS_SCORE 20
#ifndef MUTANT
#define MUTANT 0
#endif

typedef Redis {
	byte where;
	byte made, used;	/* the record: which making, attempts made */
	bit awaits;		/* the record: a consumer has it */
	byte left;		/* the score: ticks to it */
	byte lapses;		/* its fraction: claims since the last settle, 0 = scheduled */
	byte score;		/* which score */
	byte timer;		/* ticks to its expiry, and one; 0 = there is none or it is over */
	bit armed;		/* the timer is there */
	byte token, ttl;	/* the claim; ttl as timer */
	byte tmade, tused;	/* what a consumer's token names */
	bit dead;		/* the claim's holder is dead, or was counted out */
	byte list;		/* entries (making, attempt), a bit each */
	/* What is so, whatever the scripts do. */
	byte gen;		/* which notice it is, counted */
	byte gdue;		/* ticks until it may be handled */
	byte glease;		/* ticks of the last claim's lease */
	bit gdead;		/* its holder is dead or was counted out */
	bit gbeaten[INSTANCES];	/* somebody has claimed since this one did */
	bit gcancelled;		/* and its producer has cancelled it */
};

#define ENTRY(gen, attempts) (((gen) - 1) * ATTEMPTS + (attempts) - 1)

#define r m[0]
#define disk m[1]
Redis m[2];

typedef Hand {	/* what an instance knows of its claim */
	byte token, score, before, made, used, left, gen;
	bit awaits, old;	/* old: it was counted out, and knows it before it begins */
	bit busy;		/* its handler runs */
};
Hand h[INSTANCES];
bit hint;	/* a timer has expired, and somebody has heard of it */
bit handled[MAKINGS + 1];	/* by a handler or a consumer, with success */
byte born;			/* notices so far */
byte makingOf[MAKINGS + 1];	/* what each has in its record */
byte faults = FAULTS, restarts = RESTARTS, defers = DEFERS, changes = CHANGES;
bit saved;
byte n;	/* of loops within a step; 0 between steps */

/* The promises. */
bit early, lost, stolen, doubled, late;

inline promise() {
	assert(!early); assert(!lost); assert(!stolen); assert(!doubled); assert(!late)
}

/*
 * A score that is neither in Redis nor on the disk never comes again, and who still has it has none; but for that of what is due
 * at once, as long as the clock stands.
 */
#define NOW 4
#define GONE(x) (x != NOW && x != r.score && x != disk.score)
inline forgetScores() {
	for (n : 0 .. INSTANCES - 1) {
		if :: GONE(h[n].score) -> h[n].score = 0 :: else fi;
		if :: GONE(h[n].before) -> h[n].before = 0 :: else fi
	}
	n = 0
}

/* A score that nobody has. */
inline fresh() {
	if
	:: r.score != 1 && disk.score != 1 -> r.score = 1
	:: r.score != 2 && disk.score != 2 -> r.score = 2
	:: else -> r.score = 3
	fi;
	forgetScores()
}

inline noScore() { r.left = 0; r.lapses = 0; r.score = 0; forgetScores() }

inline freshToken(i) {
	n = 1 + i * PER;
	do
	:: n == m[0].token || n == m[1].token -> n++
	:: else -> break
	od;
	h[i].token = n; n = 0
}

inline noClaim() { r.token = NOBODY; r.ttl = 0; r.tmade = 0; r.tused = 0; r.dead = 0 }


/* What must be so after each write. */
inline look() {
	if
	:: r.made != makingOf[r.gen] -> lost = 1
	:: r.where == NONE && r.gen > 0 -> lost = 1
	:: r.where == DELIVERED && !handled[r.gen] -> lost = 1
	:: r.where == DEAD && r.used < ATTEMPTS -> lost = 1
	:: r.where == CANCELLED && !r.gcancelled -> lost = 1
	:: r.where != CANCELLED && r.gcancelled -> lost = 1
	:: else
	fi;
	promise()
}

inline setTimer(ms) {
	r.armed = (ms > 0);
#if MUTANT == TOUCH_WITHOUT_MINUS_ONE
	r.timer = (ms > 0 -> ms + 1 : 0)
#else
	r.timer = ms
#endif
}

inline noTimer() { r.armed = 0; r.timer = 0 }

/* schedule.lua, on a key that nobody has, or in the place of what is there. */
inline scriptSchedule(replace, ms) {
	if
	:: r.where == NONE || replace ->
		born++;
#if MUTANT == REPLACE_KEEPS_MAKING
		makingOf[born] = (r.where == NONE -> born : r.made);
#else
		makingOf[born] = born;
#endif
		r.made = makingOf[born]; r.used = 0; r.awaits = 0; r.where = SHADOW;
		if :: ms > 0 -> fresh() :: else -> r.score = NOW; forgetScores() fi;
		r.left = ms; r.lapses = 0; setTimer(ms);
#if MUTANT != REPLACE_KEEPS_CLAIM
		noClaim();
#endif
		r.gen = born; r.gdue = ms; r.glease = 0; r.gdead = 0; r.gcancelled = 0;
		look()
	:: else	/* kept as it is: the answer says so */
	fi
}

/* amend.lua */
inline scriptCancel() {
	if
	:: r.where == SHADOW || r.where == DEAD ->
		r.where = CANCELLED; noScore(); noTimer();
#if MUTANT != CANCEL_KEEPS_CLAIM
		noClaim();
#endif
		r.glease = 0; r.gdead = 0; r.gcancelled = 1;
		look()
	:: else
	fi
}

inline scriptReschedule() {
	if
	:: r.where == SHADOW && (r.token == NOBODY || MUTANT == RESCHEDULE_OF_CLAIMED) ->
		if :: r.glease > 0 -> stolen = 1 :: else fi;	/* of what is claimed nothing moves */
		fresh(); r.left = DELAY; r.lapses = 0; setTimer(DELAY);
		r.gdue = DELAY;
		look()
	:: else
	fi
}

inline scriptRedrive() {
	if
	:: r.where == DEAD ->
		fresh(); r.where = SHADOW; r.left = 0; r.lapses = 0; r.used = 0; noTimer();
		r.gdue = 0;
		look()
	:: else
	fi
}

/* The record comes with the claim; lapsed claims count as attempts. */
inline bring(i) {
	h[i].score = r.score; h[i].made = r.made; h[i].gen = r.gen; h[i].awaits = r.awaits;
	h[i].used = (r.awaits -> r.used : r.used + r.lapses - 1);
	if :: h[i].used > ATTEMPTS -> h[i].used = ATTEMPTS :: else fi
}

/* What win.lua does with a key that it wins; counted: lapses so far. */
inline win(i, was) {
	if :: r.gdue > 0 -> early = 1 :: else fi;
	if :: r.glease > 0 && !r.gdead -> doubled = 1 :: else fi;
	h[i].before = was;
#if MUTANT == LAPSE_WITHOUT_COUNT
	r.lapses = 1;
#else
	r.lapses = (r.lapses < LAPSES -> r.lapses + 1 : LAPSES);
#endif
	r.token = h[i].token; r.ttl = LEASE + 1; r.tmade = 0; r.tused = 0; r.dead = h[i].old;
#if MUTANT != CLAIM_KEEPS_SCORE
	fresh(); r.left = LEASE;
#endif
	r.glease = LEASE + 1; r.gdead = h[i].old;
	for (n : 0 .. INSTANCES - 1) { r.gbeaten[n] = (n != i) }
	n = 0; r.gbeaten[i] = 0; disk.gbeaten[i] = 0;
	bring(i);
	look()
}

inline renew(i) {
	if :: r.gbeaten[i] -> stolen = 1 :: else fi;
	r.ttl = LEASE + 1; r.left = LEASE; r.glease = LEASE + 1; h[i].before = 0;
#if MUTANT == RECOVER_WITHOUT_TOKEN
	h[i].token = r.token;
#endif
	fresh(); bring(i);
	promise()
}

/* claim.lua by key, or sweep.lua. */
inline scriptClaim(i) {
	if
	:: r.where == SHADOW && (r.left == 0 || MUTANT == CLAIM_WITHOUT_DUE) && (r.token == NOBODY || MUTANT == CLAIM_WITHOUT_NX) ->
		win(i, r.score); won = 1
	:: r.where == SHADOW && r.token == h[i].token ->
		renew(i); won = 1
	:: else -> won = 0
	fi
}

/* recover.lua finds what a lost reply had won. */
inline scriptRecover(i) {
	if
	:: r.where == SHADOW && r.lapses > 0 && (r.token == h[i].token || MUTANT == RECOVER_WITHOUT_TOKEN && r.token != NOBODY) ->
		renew(i); won = 1
	:: else -> won = 0
	fi
}

/* takeover.lua takes over what a dead instance held. */
inline scriptTakeOver(i) {
	if
	:: r.where == SHADOW && r.token != NOBODY && r.token != CONSUMER && (r.dead || MUTANT == TAKEOVER_OF_THE_LIVING) ->
#if MUTANT == TAKEOVER_WITHOUT_TOKEN
		h[i].token = r.token;
#endif
		win(i, r.score); won = 1
	:: else -> won = 0
	fi
}

/* settle.lua: whose claim it is. */
inline ours(i) {
	if
	:: r.token == h[i].token || MUTANT == SETTLE_WITHOUT_TOKEN -> won = 1
	:: r.token == NOBODY && r.where == SHADOW &&
		(r.score == h[i].score || r.score == h[i].before || MUTANT == SETTLE_WITHOUT_SCORE) &&
		(r.made == h[i].made || MUTANT == SETTLE_WITHOUT_MAKING) -> won = 1
	:: else -> won = 0
	fi
}

/* settle.lua writes the record as its caller has it. */
inline end(op, making, attempts, which) {
	/*
	 * A notice that Redis forgot, and that was claimed by the same call as the one
	 * whose place it had taken, takes its place again. A token is unique for a call.
	 */
	if :: RESTARTS && r.gen < which -> r.gen = which; r.gcancelled = 0 :: else fi;
	if :: r.where != SHADOW || r.gen != which -> stolen = 1 :: else fi;
	noClaim();
	r.made = making; r.used = attempts; r.awaits = 0;
	r.glease = 0; r.gdead = 0;
	if
	:: op == 'd' -> r.where = DELIVERED; noScore()
	:: op == 'x' -> r.where = DEAD; noScore()
	:: op == 'r' ->
#if MUTANT == RETRY_WITHOUT_SHADOW
		r.where = NONE;
#else
		r.where = SHADOW;
#endif
		fresh(); r.left = STEP; r.lapses = 0; setTimer(STEP); r.gdue = STEP
	:: op == 'f' -> r.where = SHADOW; fresh(); r.left = STEP; r.lapses = 0; setTimer(STEP); r.gdue = STEP
	:: op == 'w' ->
		fresh(); r.awaits = 1; r.left = LEASE; r.lapses = 1;
		r.token = CONSUMER; r.ttl = LEASE + 1; r.tmade = making; r.tused = attempts;
		r.list = r.list | (1 << ENTRY(which, attempts));
		r.glease = LEASE + 1
	fi;
	look()
}

inline scriptSettle(i, op) {
	ours(i);
	if
	:: won ->
		if :: r.gbeaten[i] -> stolen = 1 :: else fi;
		end(op, h[i].made, h[i].used, h[i].gen)
	:: else
	fi
}

inline drop(i) {
	h[i].token = 0; h[i].score = 0; h[i].before = 0; h[i].made = 0; h[i].gen = 0; h[i].used = 0; h[i].left = 0;
	h[i].awaits = 0; h[i].old = 0; h[i].busy = 0; op = 0; won = 0;
	r.gbeaten[i] = 0; disk.gbeaten[i] = 0
}

/* An instance dies: what it knew is gone, its claim is not. */
inline die(i) {
	for (n : 0 .. 1) {
		if :: m[n].token != NOBODY && m[n].token != CONSUMER && HOLDER(m[n].token) == i -> m[n].dead = 1; m[n].gdead = 1 :: else fi
	}
	n = 0;
	drop(i)
}

proctype Instance(byte i) {
	byte op;	/* of the coming settle */
	bit won;	/* of the last script */

idle:	do
	:: d_step {	/* touch: a timer that is due is looked at, and Redis expires it */
		r.where == SHADOW && r.lapses == 0 && r.armed && r.left == 0 ->
		printf("instance %d touches the timer\n", i + 1);
		if :: r.timer > 0 -> late = 1 :: else fi;
		r.armed = 0; hint = 1;
		promise()
	   }
	:: d_step { hint -> printf("instance %d claims, because of the event\n", i + 1); hint = 0; freshToken(i); h[i].left = LEASE; scriptClaim(i) } -> goto asked
#if MUTANT != NO_SWEEP
	:: d_step { r.where == SHADOW && r.left == 0 && (r.token == NOBODY || MUTANT == CLAIM_WITHOUT_NX) -> printf("instance %d claims in a sweep\n", i + 1); freshToken(i); h[i].left = LEASE; scriptClaim(i) } -> goto asked
#endif
	:: d_step { r.where == SHADOW && r.token != NOBODY && r.token != CONSUMER && (r.dead || MUTANT == TAKEOVER_OF_THE_LIVING) ->
			printf("instance %d takes over\n", i + 1); freshToken(i); h[i].left = LEASE; scriptTakeOver(i) } -> goto asked
	od;

asked:	if
	:: d_step { won -> printf("instance %d has won\n", i + 1); won = 0 }
	:: d_step { !won -> printf("instance %d has lost\n", i + 1); drop(i) } -> goto idle
	:: d_step { LOSSES && faults > 0 -> faults--; printf("instance %d gets no reply\n", i + 1); won = 0 } -> goto unanswered
	:: d_step { CRASHES && faults > 0 -> faults--; printf("instance %d dies\n", i + 1); die(i) } -> goto idle
	fi;

	/* What is to be done with it. */
	d_step {
		if
		:: h[i].awaits -> op = (h[i].used >= ATTEMPTS -> 'x' : 'r')	/* no report came */
#if MUTANT != NO_GUARD
		:: !h[i].awaits && h[i].used >= ATTEMPTS -> op = 'x'		/* interrupted too often */
#endif
		:: !h[i].awaits && (h[i].used < ATTEMPTS || MUTANT == NO_GUARD) && (h[i].left == 0 || h[i].old) -> op = 'f'	/* too little is left of the lease */
		:: else -> op = 0
		fi
	};
#if !TIMELY
	h[i].left = 0; h[i].old = 0;
#endif
	if
	:: op != 0
	:: op == 0 && REPORT -> d_step { printf("instance %d hands it to a consumer\n", i + 1); h[i].used++; op = 'w' }
	:: op == 0 && !REPORT -> d_step { printf("instance %d begins its handler\n", i + 1); h[i].busy = 1 } -> goto handler
	fi;
	goto settle;

handler:	if
	:: d_step { printf("instance %d has handled it\n", i + 1); h[i].busy = 0; handled[h[i].gen] = 1; op = 'd'; h[i].used++ }
	:: d_step { printf("instance %d has failed\n", i + 1); h[i].busy = 0; h[i].used++; op = (h[i].used >= ATTEMPTS -> 'x' : 'r') }
	:: d_step { defers > 0 -> printf("instance %d puts it off\n", i + 1); defers--; h[i].busy = 0; op = 'f' }
	:: d_step { POISON -> printf("instance %d dies of the handler\n", i + 1); die(i) } -> goto idle
	:: d_step { CRASHES && faults > 0 -> faults--; printf("instance %d dies\n", i + 1); die(i) } -> goto idle
	fi;

settle:	if
	:: d_step { printf("instance %d settles: %c\n", i + 1, op); scriptSettle(i, op) }
	:: d_step { CRASHES && faults > 0 -> faults--; printf("instance %d dies\n", i + 1); die(i) } -> goto idle
	fi;
	if
	:: d_step { drop(i) } -> goto idle
	:: d_step { LOSSES && faults > 0 -> faults--; printf("instance %d gets no reply\n", i + 1); won = 0 } -> goto settle	/* it is repeated, and is stale if it was taken */
	:: d_step { CRASHES && faults > 0 -> faults--; printf("instance %d dies\n", i + 1); die(i) } -> goto idle
	fi;

unanswered:
	if
	:: d_step { h[i].left = LEASE; printf("instance %d looks for what it has won\n", i + 1); scriptRecover(i) }
	:: d_step { printf("instance %d claims again by the same token\n", i + 1); h[i].left = LEASE; scriptClaim(i) }	/* the same call again */
	fi;
	goto asked
}

proctype Producer() {
	d_step { printf("producer schedules\n"); scriptSchedule(false, DELAY) };
	do
	:: d_step { changes > 0 && r.where != NONE -> printf("producer replaces it\n"); changes--; scriptSchedule(true, DELAY) }
	:: d_step { changes > 0 && r.where != NONE -> printf("producer replaces it, due now\n"); changes--; scriptSchedule(true, 0) }
	:: d_step { changes > 0 && r.where != NONE -> printf("producer cancels it\n"); changes--; scriptCancel() }
	:: d_step { changes > 0 && r.where == SHADOW -> printf("producer reschedules it\n"); changes--; scriptReschedule() }
	:: d_step { changes > 0 && r.where == DEAD -> printf("producer redrives it\n"); changes--; scriptRedrive() }
	:: d_step { LOSSES && faults > 0 && r.where != NONE -> faults--; printf("producer got no reply and schedules again\n"); scriptSchedule(false, DELAY) }	/* the call is repeated */
	:: d_step { r.where == NONE && born < MAKINGS -> printf("producer schedules what Redis forgot\n"); scriptSchedule(false, DELAY) }		/* Redis forgot it */
	od
}

#if REPORT
#define TAKE(k) :: d_step { r.list & (1 << k) -> printf("consumer takes an entry\n"); r.list = r.list & ~(1 << k); which = k / ATTEMPTS + 1; attempt = k % ATTEMPTS + 1 }
proctype Consumer() {
	byte which, attempt, op, made, used;
	bit good;

take:	if
	TAKE(0) TAKE(1) TAKE(2) TAKE(3) TAKE(4) TAKE(5) TAKE(6) TAKE(7)
	fi;
	if
	:: d_step { printf("consumer has handled it\n"); handled[which] = 1; op = 'd' }
	:: d_step { printf("consumer has failed\n"); op = 'r' }
	:: d_step { defers > 0 -> printf("consumer puts it off\n"); defers--; op = 'f' }
	:: d_step { CRASHES && faults > 0 -> faults--; printf("consumer dies\n"); which = 0; attempt = 0 } -> goto take
	fi;

report:	if	/* The record is read, and compared with the entry. */
	:: d_step {
		made = r.made; used = r.used;
		good = ((made == makingOf[which] || MUTANT == REPORT_WITHOUT_MAKING) && (used == attempt || MUTANT == REPORT_WITHOUT_ATTEMPT) && r.awaits && r.where == SHADOW)
	   }
	fi;
	if
	:: d_step { good -> printf("consumer reports\n");
		if
		:: r.token == CONSUMER && (r.tmade == made || MUTANT == REPORT_WITHOUT_MAKING) && (r.tused == used || MUTANT == REPORT_WITHOUT_ATTEMPT) ->
			/* A report settles what it is about. */
			if :: r.gen != which || r.used != attempt -> stolen = 1 :: else fi;
			if
			:: op == 'r' && used >= ATTEMPTS -> end('x', made, used, which)
			:: op == 'f' -> end('f', made, used - 1, which)
			:: else -> end(op, made, used, which)
			fi
		:: else
		fi }
	:: d_step { !good -> printf("consumer's report is refused\n") }
	fi;
	if
	:: d_step { LOSSES && faults > 0 -> faults--; made = 0; used = 0; good = 0 } -> goto report
	:: d_step { op = 0; which = 0; attempt = 0; made = 0; used = 0; good = 0 }
	fi;
	goto take
}
#endif

inline copy(to, from) {
	to.where = from.where; to.made = from.made; to.used = from.used; to.awaits = from.awaits; to.left = from.left; to.lapses = from.lapses;
	to.score = from.score; to.timer = from.timer; to.armed = from.armed; to.token = from.token; to.ttl = from.ttl; to.tmade = from.tmade;
	to.tused = from.tused; to.dead = from.dead; to.list = from.list; to.gen = from.gen; to.gdue = from.gdue; to.glease = from.glease;
	to.gdead = from.gdead; to.gcancelled = from.gcancelled;
	for (n : 0 .. INSTANCES - 1) { to.gbeaten[n] = from.gbeaten[n] }
	n = 0
}

inline forget() {
	disk.where = NONE; disk.made = 0; disk.used = 0; disk.awaits = 0; disk.left = 0; disk.lapses = 0; disk.score = 0; disk.timer = 0;
	disk.armed = 0; disk.token = 0; disk.ttl = 0; disk.tmade = 0; disk.tused = 0; disk.dead = 0; disk.list = 0; disk.gen = 0;
	disk.gdue = 0; disk.glease = 0; disk.gdead = 0; disk.gcancelled = 0;
	for (n : 0 .. INSTANCES - 1) { disk.gbeaten[n] = 0 }
	n = 0;
	forgetScores()
}

/* Instance n lives, and the others know it as gone. */
inline countOut() {
	printf("instance %d is counted out\n", n + 1);
	h[n].old = 1;
	if :: r.token != NOBODY && r.token != CONSUMER && HOLDER(r.token) == n -> r.dead = 1; r.gdead = 1 :: else fi;
	n = 0
}

/* Redis and the world around it. */
proctype World() {
	do
	:: d_step { r.armed && r.timer == 0 -> printf("redis expires the timer\n"); r.armed = 0; hint = 1 }	/* a timer expires */
	:: d_step { hint -> printf("the event is lost\n"); hint = 0 }					/* an event is lost */
#if INSTANCES > 1
	:: d_step { COUNTOUTS && faults > 0 && h[1].token != NOBODY -> faults--; n = 1; countOut() }
#endif
	:: d_step { COUNTOUTS && faults > 0 && h[0].token != NOBODY -> faults--; n = 0; countOut() }
	:: d_step { restarts > 0 && faults > 0 && !saved && r.where != NONE -> printf("redis writes to disk\n"); saved = 1; copy(disk, r) }	/* what lies on the disk */
	:: d_step { restarts > 0 && faults > 0 -> printf("redis restarts from its disk\n"); restarts--; faults--; saved = 0; copy(r, disk);
		if :: r.timer == 0 -> r.armed = 0 :: else fi;				/* loading drops it, without an event */
		forget() }
	od
}

/* The ms is over: its score is like others. */
inline settleNow() {
	n = (r.score != 1 && disk.score != 1 -> 1 : (r.score != 2 && disk.score != 2 -> 2 : 3));
	if :: r.score == NOW -> r.score = n :: else fi;
	if :: disk.score == NOW -> disk.score = n :: else fi;
	if :: h[0].score == NOW -> h[0].score = n :: else fi;
	if :: h[0].before == NOW -> h[0].before = n :: else fi;
#if INSTANCES > 1
	if :: h[1].score == NOW -> h[1].score = n :: else fi;
	if :: h[1].before == NOW -> h[1].before = n :: else fi;
#endif
	n = 0;
	forgetScores()
}

#define LESS(x) x = (x > 0 -> x - 1 : 0)

inline pass(d) {
	LESS(d.left); LESS(d.timer); LESS(d.ttl); LESS(d.gdue); LESS(d.glease);
	if :: d.ttl == 0 -> d.token = NOBODY; d.tmade = 0; d.tused = 0; d.dead = 0 :: else fi
}

/* Somebody has a claim for longer than a handler may take, or is slow beside it. */
#define SLOW(i) (h[i].token != NOBODY && (!h[i].busy || h[i].left == 0))
#if INSTANCES > 1
#define STOPPED (SLOW(0) || SLOW(1))
#else
#define STOPPED SLOW(0)
#endif

proctype Clock() {
	do
	:: d_step {
		!TIMELY || !STOPPED || STALLS && faults > 0 ->
		if :: TIMELY && STOPPED -> faults-- :: else fi;
		printf("time passes\n");
		pass(m[0]); pass(m[1]);
		settleNow();
		for (n : 0 .. INSTANCES - 1) { LESS(h[n].left) }
		n = 0 }
	od
}

init {
	atomic {
		run Clock(); run World(); run Producer(); run Instance(0);
#if INSTANCES > 1
		run Instance(1);
#endif
#if REPORT
		run Consumer();
#endif
	}
}

#ifdef ENDS
ltl ends { <>[] (m[0].where != SHADOW) }
#endif
