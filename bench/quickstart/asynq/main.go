// Command asynq is the smallest program that schedules and handles a job with asynq.
package main

import (
	"context"
	"encoding/json"
	"log"
	"time"

	"github.com/hibiken/asynq"
)

type order struct{ ID string }

func closeOrder(_ context.Context, t *asynq.Task) error {
	var o order
	if err := json.Unmarshal(t.Payload(), &o); err != nil {
		return err
	}

	log.Println("closing", o.ID)
	return nil
}

func main() {
	redis := asynq.RedisClientOpt{Addr: "127.0.0.1:6379"}
	body, err := json.Marshal(order{"4711"})
	if err != nil {
		log.Fatal(err)
	}

	_, err = asynq.NewClient(redis).Enqueue(asynq.NewTask("orders:close", body), asynq.TaskID("4711"), asynq.ProcessIn(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}

	mux := asynq.NewServeMux()
	mux.HandleFunc("orders:close", closeOrder)
	if err := asynq.NewServer(redis, asynq.Config{}).Run(mux); err != nil { // it handles signals
		log.Fatal(err)
	}
}
