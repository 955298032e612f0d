package store

import (
	"reflect"
	"testing"
)

// A method that only one package needs belongs to that package. Methods of embedded fields count.
func TestStoreHasFewMethods(t *testing.T) {
	const most = 50
	if n := reflect.TypeFor[*Store]().NumMethod(); n > most {
		t.Errorf("Store has %d exported methods, more than %d", n, most)
	}
}
