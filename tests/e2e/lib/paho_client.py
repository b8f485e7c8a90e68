"""paho-mqtt with events to wait for instead of callbacks."""
import queue
from collections import namedtuple

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from lib.wait import HANG_S

V311, V5 = paho.MQTTv311, paho.MQTTv5

Message = namedtuple("Message", "topic payload qos retain")


class Paho:
    """Waits for a kind of event discard nothing: each kind has a queue of its own."""

    def __init__(self, address, version, client_id="", user=None, password=None, clean=True, keep_alive=60, will=None,
                 expiry_s=None):
        """`will`: (topic, payload, qos, retain). `clean=False` keeps the session; in MQTT 5 for `expiry_s` seconds."""
        self.address, self.version, self.clean, self.keep_alive = address, version, clean, keep_alive
        options = {} if version == V5 else {"clean_session": clean}
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=version, reconnect_on_failure=False, **options)
        if user is not None:
            self.client.username_pw_set(user, password)
        if will:
            self.client.will_set(*will)
        self.properties = None
        if version == V5 and expiry_s is not None:
            self.properties = Properties(PacketTypes.CONNECT)
            self.properties.SessionExpiryInterval = expiry_s
        self.events = {kind: queue.Queue() for kind in ("connect", "disconnect", "message", "publish", "subscribe", "unsubscribe")}
        put = lambda kind, what: self.events[kind].put(what)
        self.client.on_connect = lambda c, u, flags, reason, p: put("connect", (reason.value, flags.session_present))
        self.client.on_disconnect = lambda c, u, flags, reason, p: put("disconnect", (reason.value, flags.is_disconnect_packet_from_server))
        self.client.on_message = lambda c, u, m: put("message", Message(m.topic, m.payload, m.qos, bool(m.retain)))
        self.client.on_publish = lambda c, u, mid, reason, p: put("publish", (mid, reason.value))
        self.client.on_subscribe = lambda c, u, mid, reasons, p: put("subscribe", [r.value for r in reasons])
        self.client.on_unsubscribe = lambda c, u, mid, reasons, p: put("unsubscribe", mid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()

    def wait(self, kind):
        return self.events[kind].get(timeout=HANG_S)

    def connect(self):
        """(reason code, session present)"""
        options = {"clean_start": self.clean, "properties": self.properties} if self.version == V5 else {}
        self.client.connect(*self.address, keepalive=self.keep_alive, **options)
        self.client.loop_start()
        return self.wait("connect")

    def disconnect(self):
        self.client.disconnect()
        self.wait("disconnect")
        self.client.loop_stop()

    def subscribe(self, *filters):
        """`filters`: (filter, QoS) each; the granted QoS or the reason codes."""
        self.client.subscribe(list(filters))
        return self.wait("subscribe")

    def publish(self, topic, payload, qos=0, retain=False):
        """With QoS 1 and 2 until it is acknowledged to the end: the reason code."""
        info = self.client.publish(topic, payload, qos, retain)
        mid, reason = self.wait("publish")
        assert mid == info.mid
        return reason

    def next_message(self):
        return self.wait("message")
