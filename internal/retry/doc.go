// Package retry paces the repetition of operations that fail.
package retry
