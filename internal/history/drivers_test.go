package history_test

import (
	_ "notifier/worker/pghistory"
	_ "notifier/worker/sqlitehistory"
)
