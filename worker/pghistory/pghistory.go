package pghistory

import _ "notifier/internal/history/postgres" // the driver and the migrations
