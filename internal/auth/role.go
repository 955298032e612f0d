package auth

import "fmt"

// Role is the set of calls and pages that a client may use. Each role includes the roles before it.
type Role int

// Roles. The zero value is no role: it allows nothing, and no call requires it.
const (
	_ Role = iota
	// Public is required by calls that need no token. No client has it.
	Public
	// Read allows reading within the client's prefix.
	Read
	// Produce also allows to schedule and change single notices, and to report attempts.
	Produce
	// Operate also allows to redrive, purge, replay, restore and pause, and to make links.
	Operate
	// Admin also allows to erase the history, to forget subjects and, without a prefix, to read receivers'
	// keys and the audit of all clients.
	Admin
)

// roleNames are the names in the configuration.
var roleNames = map[Role]string{Public: "public", Read: "read", Produce: "produce", Operate: "operate", Admin: "admin"}

func (r Role) String() string {
	if name, ok := roleNames[r]; ok {
		return name
	}
	return "none"
}

// Includes reports whether r allows calls that require that role.
func (r Role) Includes(required Role) bool { return required > 0 && r >= required }

// Roles describes the roles of clients, for error messages.
const Roles = "read (read everything under its prefix), produce (also schedule, change and report notices), " +
	"operate (also redrive, purge, replay, restore, pause, make links) or admin (also erase)"

// ParseRole reads the name of a client's role.
func ParseRole(name string) (Role, error) {
	for _, r := range []Role{Read, Produce, Operate, Admin} {
		if r.String() == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("want %s", Roles)
}
