// An application of the corpus with sarama: `orders BOOTSTRAP TOPIC ID HOW`.
// HOW is the name of a bug, or of the right application; see other_languages.py. Orders are lines of stdin.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/IBM/sarama"
)

const attemptsMax = 5

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func settings(how, transactionalID string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_5_0_0
	config.Producer.Return.Successes = how != "not-returned"
	config.Producer.Return.Errors = how != "not-returned"
	config.Net.MaxOpenRequests = 1
	config.Producer.Retry.Max = 5
	config.Producer.RequiredAcks = sarama.WaitForAll
	switch how {
	case "no-acks":
		config.Producer.RequiredAcks = sarama.NoResponse
	case "not-idempotent":
	case "commits", "deferred-commit":
		config.Producer.Idempotent = true
		config.Producer.Transaction.ID = transactionalID
	default:
		config.Producer.Idempotent = true
	}
	return config
}

// Each order is sent until it is delivered.
func deliver(bootstrap []string, config *sarama.Config, topic string, orders []string) {
	producer, err := sarama.NewSyncProducer(bootstrap, config)
	check(err)
	for _, order := range orders {
		for attempt := 1; ; attempt++ {
			message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(order)}
			if _, _, err = producer.SendMessage(message); err == nil {
				break
			}
			if attempt == attemptsMax {
				fail(err)
			}
		}
	}
	check(producer.Close())
}

// Errors are neither returned nor read.
func forget(bootstrap []string, config *sarama.Config, topic string, orders []string) {
	producer, err := sarama.NewAsyncProducer(bootstrap, config)
	check(err)
	for _, order := range orders {
		producer.Input() <- &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(order)}
	}
	check(producer.Close())
}

// The order and its invoice, in a transaction. The work of one order fails once, between the two.
func transact(bootstrap []string, config *sarama.Config, topic, how string, orders []string) {
	producer, err := sarama.NewSyncProducer(bootstrap, config)
	check(err)
	failed := false
	work := func(order string) error {
		message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(order)}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
		if order == orders[2] && !failed {
			failed = true
			return errors.New("the invoice cannot be made")
		}
		message = &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(order + "-invoice")}
		_, _, err := producer.SendMessage(message)
		return err
	}
	one := func(order string) error {
		check(producer.BeginTxn())
		if how == "deferred-commit" {
			defer func() { check(producer.CommitTxn()) }()
			return work(order)
		}
		if err := work(order); err != nil {
			check(producer.AbortTxn())
			return err
		}
		return producer.CommitTxn()
	}
	for _, order := range orders {
		for attempt := 1; ; attempt++ {
			err := one(order)
			if err == nil {
				break
			}
			if attempt == attemptsMax {
				fail(err)
			}
		}
	}
	check(producer.Close())
}

func main() {
	bootstrap, topic, how := strings.Split(os.Args[1], ","), os.Args[2], os.Args[4]
	config := settings(how, os.Args[3])
	orders := []string{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		orders = append(orders, lines.Text())
	}
	switch how {
	case "not-returned":
		forget(bootstrap, config, topic, orders)
	case "commits", "deferred-commit":
		transact(bootstrap, config, topic, how, orders)
	default:
		deliver(bootstrap, config, topic, orders)
	}
}
