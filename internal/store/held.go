package store

import (
	"notifier/internal/wire"
)

// Held is Lua code that most scripts that change pending notices include. It maintains the list of held notices, which
// wait because their receiver is paused (package holds). Package holds removes outdated entries from the list.
var Held = wire.Prelude(part("held"))
