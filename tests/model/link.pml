/* A channel of the link between instances (docs/wire/link.md): K numbered frames from one worker to one process, over as many connections as
 * it takes. Connections break at any time, with whatever is on the way in either direction; of an old one something may
 * still arrive when a new one has been greeted, or its greeting only then.
 *
 * Checked in every state: no number is missing where a frame is taken, so that frames are taken in order, each once; and none is forgotten by
 * the sender that the receiver does not have. Checked where nothing can happen any more: all were taken, and none is kept.
 *
 * WITHOUT_NUMBERS and WITHOUT_KEEPING each leave out something that this depends on: then the check must fail. */
#ifndef K
#define K 3
#endif
#ifndef BREAKS
#define BREAKS 2
#endif

/* Each break costs a connection, and so does a greeting that comes so late that it takes the place of a newer connection's. */
#define CONNECTIONS (2 * BREAKS + 2)
#define WAYS 3 /* frames that fit on the way */

mtype = { HELLO, FRAME, WELCOME, ACK };

chan there[CONNECTIONS] = [WAYS] of { mtype, byte };
chan back[CONNECTIONS] = [WAYS] of { mtype, byte };
bool is_ended[CONNECTIONS]; /* by the receiver */

byte first = 1, next = 1, n_sent; /* the sender's: the oldest kept, the next one, and what it has sent over this connection */
byte received;                    /* the receiver's */

inline forget(number)
{
#ifdef WITHOUT_KEEPING
    skip
#else
    assert(number < next && number + 1 >= first);
    first = number + 1
#endif
}

proctype sender()
{
    byte connection, number, n_breaks;
    bool stands, is_connected;

    do
    :: next <= K -> next++
    :: atomic {
        !is_connected && connection < CONNECTIONS ->
        is_connected = true;
        stands = false;
        there[connection]!HELLO, first
    }
    :: d_step {
        is_connected && !stands && nempty(back[connection]) ->
        back[connection]?WELCOME, number;
        forget(number);
        stands = true;
        n_sent = first - 1
    }
    :: d_step {
        is_connected && stands && n_sent + 1 < next && nfull(there[connection]) ->
        n_sent++;
        there[connection]!FRAME, n_sent;
#ifdef WITHOUT_KEEPING
        first = n_sent + 1
#endif
    }
    :: d_step {
        is_connected && stands && nempty(back[connection]) ->
        back[connection]?ACK, number;
        forget(number)
    }
    :: d_step {
        is_connected && (n_breaks < BREAKS || is_ended[connection]) && connection + 1 < CONNECTIONS ->
        n_breaks = (is_ended[connection] -> n_breaks : n_breaks + 1);
        connection++;
        is_connected = false;
        stands = false
    }
    od
}

byte reads = CONNECTIONS; /* the connection that counts; none yet */

inline greet(c)
{
    if
    :: reads < CONNECTIONS && reads != c -> is_ended[reads] = true
    :: else
    fi;
    reads = c;
#ifdef WITHOUT_NUMBERS
    back[c]!WELCOME, 0
#else
    back[c]!WELCOME, received
#endif
}

inline take(c, number)
{
    if
    :: number == received + 1 -> received = number
    :: else -> assert(number <= received)
    fi
}

proctype reader(byte c)
{
    mtype what;
    byte number;

    do
    :: atomic {
        nempty(there[c]) && !is_ended[c] && nfull(back[c]) ->
        there[c]?what, number;
        if
        :: what == HELLO -> greet(c)
        :: else -> take(c, number); back[c]!ACK, received
        fi;
        number = 0
    }
    od
}

proctype observer()
{
    timeout;
    assert(received == K && first == K + 1)
}

init
{
    byte c;

    atomic {
        do
        :: c < CONNECTIONS -> run reader(c); c++
        :: else -> break
        od;
        run sender();
        run observer()
    }
}
