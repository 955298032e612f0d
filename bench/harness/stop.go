package harness

// failure is what check panics with.
type failure struct{ err error }

// check ends a case at an error, like a test's Fatal. Only functions that run within Measure or Quickstart may use it.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns a value, or ends the case like check.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// failed is deferred by the caller of a case, and sets err to the error that ended it.
func failed(err *error) {
	switch f := recover().(type) {
	case nil:
	case failure:
		*err = f.err
	default:
		panic(f)
	}
}
