// Command notifier tells merchants again and again, on time, until they
// acknowledge. See README.md.
package main

import "fmt"

func main() { fmt.Println("notifier: not built yet") }
