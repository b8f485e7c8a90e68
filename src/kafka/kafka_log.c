#include "kafka/kafka_log.h"

#include "base/log.h"

/* The levels of syslog(3), which librdkafka uses; the header itself has macros with the names of ours. */
enum { SYSLOG_ERROR = 3, SYSLOG_WARNING = 4, SYSLOG_DEBUG = 7 };

void kafka_log_line(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    (void)rk; /* NULL while a handle is being made */
    /* librdkafka calls every lost connection an error; it repairs those itself, so nobody has to act. */
    if (level < SYSLOG_ERROR)
        LOG_ERROR(LOG_KAFKA, "kafka.client", F_TEXT("facility", facility), F_TEXT("text", text));
    else if (level <= SYSLOG_WARNING)
        LOG_WARN(LOG_KAFKA, "kafka.client", F_TEXT("facility", facility), F_TEXT("text", text));
    else if (level < SYSLOG_DEBUG)
        LOG_INFO(LOG_KAFKA, "kafka.client", F_TEXT("facility", facility), F_TEXT("text", text));
    else
        LOG_DEBUG(LOG_KAFKA, "kafka.client", F_TEXT("facility", facility), F_TEXT("text", text));
}
