/* http2_events: what nghttp2 tells of a server's HTTP/2 connection, handed on to http2_conn and http2_stream. Internal to http/. */
#pragma once

#include "http/http2_session.h"

/* For sessions whose user pointer is a struct http2_conn. */
const struct http2_session_callbacks *http2_events_callbacks(void);
