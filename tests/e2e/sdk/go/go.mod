module millrace/tests/cloudevents

go 1.22

require github.com/cloudevents/sdk-go/v2 v2.16.1
