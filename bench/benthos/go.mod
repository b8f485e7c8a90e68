module millrace/bench/benthos

go 1.22

require github.com/redpanda-data/benthos/v4 v4.60.0
