package history_test

import (
	_ "notifier/internal/history/postgres"
	_ "notifier/internal/history/sqlite"
)
