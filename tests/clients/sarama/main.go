// A member of a group that reads, processes and writes in transactions, with sarama. Words: see ../owners.py.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const sessionTimeout = 6 * time.Second

var (
	brokers                      []string
	group, source, target, owner string
	perPartition, named          bool
	lines                        = bufio.NewScanner(os.Stdin)
)

func say(words ...any) { fmt.Println(words...) }

func fail(err error) {
	say("failed", strings.ReplaceAll(err.Error(), "\n", " "))
	os.Exit(0)
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Group.Session.Timeout = sessionTimeout
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	if named { // from this version on sarama names its generation, and waits for a pending offset
		config.Version = sarama.V2_5_0_0
	}
	return config
}

// producer is initialized when this returns: what an earlier owner of its id left open is aborted.
func producer(id string) sarama.SyncProducer {
	config := settings()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Transaction.ID = id
	config.Net.MaxOpenRequests = 1
	made, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		fail(err)
	}
	return made
}

type member struct{ producers map[int32]sarama.SyncProducer }

// Setup comes when the session has its offsets already, so they are fetched again behind the initialization.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	admin, err := sarama.NewClusterAdmin(brokers, settings())
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, partition := range session.Claims()[source] {
		if !perPartition {
			continue
		}
		if old := m.producers[partition]; old != nil {
			old.Close()
		}
		m.producers[partition] = producer(fmt.Sprintf("%s-%d", group, partition))
		fetched, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{source: {partition}})
		if err != nil {
			return err
		}
		if block := fetched.GetBlock(source, partition); block.Offset >= 0 {
			session.ResetOffset(source, partition, block.Offset, "")
			session.MarkOffset(source, partition, block.Offset, "")
		}
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	writer := m.producers[claim.Partition()]
	if writer == nil {
		writer = producer(owner)
		m.producers[claim.Partition()] = writer
	}
	for message := range claim.Messages() {
		if err := transact(session, writer, message); err != nil {
			fail(err)
		}
		session.MarkMessage(message, "")
		say("committed", message.Offset)
	}
	return nil
}

func transact(
	session sarama.ConsumerGroupSession, writer sarama.SyncProducer, message *sarama.ConsumerMessage,
) error {
	if err := writer.BeginTxn(); err != nil {
		return err
	}
	output := &sarama.ProducerMessage{Topic: target, Value: sarama.ByteEncoder(message.Value)}
	if _, _, err := writer.SendMessage(output); err != nil {
		return err
	}
	var err error
	if named {
		metadata := sarama.NewConsumerGroupMetadataFromSession(session, group, nil)
		err = writer.AddMessageToTxnWithGroupMetadata(message, metadata, nil)
	} else {
		err = writer.AddMessageToTxn(message, group, nil)
	}
	if err != nil {
		return err
	}
	say("pending", message.Offset) // sarama itself sends the offset with CommitTxn
	lines.Scan()
	if err := writer.CommitTxn(); err != nil {
		_ = writer.AbortTxn() // else readers wait for its timeout; a fenced producer cannot
		return err
	}
	return nil
}

func main() {
	brokers = strings.Split(os.Args[1], ",")
	group, source, target, owner = os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	perPartition, named = os.Args[6] == "partition", os.Args[6] == "named"
	reader, err := sarama.NewConsumerGroup(brokers, group, settings())
	if err != nil {
		fail(err)
	}
	made := &member{producers: map[int32]sarama.SyncProducer{}}
	for {
		if err := reader.Consume(context.Background(), []string{source}, made); err != nil {
			fail(err)
		}
	}
}
