package vault

import (
	"errors"

	"notifier/internal/seal"
)

// MissingKeyError is an ErrSealed: this instance has no service key of that name, or another one.
type MissingKeyError struct {
	Name string
	err  error
}

// Error implements error.
func (e *MissingKeyError) Error() string {
	return ErrSealed.Error() + ": service key " + e.Name + ": " + e.err.Error()
}

// Unwrap returns ErrSealed and the error of package seal.
func (e *MissingKeyError) Unwrap() []error { return []error{ErrSealed, e.err} }

// missing makes an error of unwrapping a MissingKeyError, unless the text is malformed.
func missing(err error, wrapped string) error {
	name, bad := seal.WrappedWith(wrapped)
	if bad == nil && (errors.Is(err, seal.ErrNoKey) || errors.Is(err, seal.ErrForeign)) {
		return &MissingKeyError{name, err}
	}

	return err
}
