package sqlitehistory

import _ "notifier/internal/history/sqlite" // the driver and the migrations
