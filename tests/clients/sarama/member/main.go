// A member of a group, with sarama: what ../../group_story.py says. BOOTSTRAP GROUP TOPIC WAY
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

const (
	sessionTimeout = 6 * time.Second
	givesUp        = 2 * time.Second
	pause          = 200 * time.Millisecond
)

var (
	topic string
	holds bool
	lines = bufio.NewScanner(os.Stdin)
)

func say(words ...any) { fmt.Println(words...) }

type member struct{ slow atomic.Bool }

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	partitions := session.Claims()[topic]
	if partitions == nil {
		partitions = []int32{}
	}
	said, _ := json.Marshal(partitions)
	say(string(said))
	return nil
}

// Cleanup comes before the member joins again. Once, it takes its time, if it is to: it is alive meanwhile.
func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	if holds && m.slow.CompareAndSwap(true, false) {
		say("revoked")
		lines.Scan()
	}
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
	}
	return nil
}

func main() {
	brokers, group := strings.Split(os.Args[1], ","), os.Args[2]
	topic = os.Args[3]
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = sessionTimeout
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	for _, way := range strings.Split(os.Args[4], "+") {
		switch way {
		case "idless": // JoinGroup 1: a member is known by its id when it has joined, not before
			config.Version = sarama.V1_0_0_0
		case "impatient":
			config.Net.ReadTimeout = givesUp
		case "slow":
			holds = true
		}
	}
	client, err := sarama.NewConsumerGroup(brokers, group, config)
	if err != nil {
		say("failed", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	made := &member{}
	made.slow.Store(true)
	for ctx.Err() == nil {
		if err := client.Consume(ctx, []string{topic}, made); err != nil && ctx.Err() == nil {
			say("failed", strings.ReplaceAll(err.Error(), "\n", " "))
			time.Sleep(pause) // then it joins again, as sarama's own examples do
		}
	}
	holds = false
	_ = client.Close() // leaves the group
}
