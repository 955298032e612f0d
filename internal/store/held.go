package store

import (
	_ "embed"

	"notifier/internal/wire"
)

//go:embed lua/held.lua
var heldSource string

// Held is Lua code that most scripts that change pending notices include. It maintains the list of held notices, which
// wait because their receiver is paused (package holds). Package holds removes outdated entries from the list.
var Held = wire.Prelude(heldSource)
