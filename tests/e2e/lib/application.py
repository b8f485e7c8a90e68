"""An application that sends commands to devices, by Kafka alone (docs/wire/commands.md)."""
from lib.records import put
from lib.wait import until

FAILURE = "application/vnd.eclipse-hono-delivery-failure-notification+json"
SUCCESS = "application/vnd.eclipse-hono-delivery-success-notification+json"
EMPTY = "application/vnd.eclipse-hono-empty-notification"


class Application:
    """What writes commands to Kafka and reads what is told of them."""

    def __init__(self, kafka, tenant):
        self.kafka = kafka
        self.tenant = tenant

    def send(self, device="d1", subject="set", value=b"v", key=None, **headers):
        headers = {"device_id": device, "subject": subject} | {n.replace("_", "-") if n != "device_id" else n: v
                                                              for n, v in headers.items()}
        put(self.kafka.bootstrap, f"hono.command.{self.tenant}",
            (key or device, value, [(n, v.encode() if isinstance(v, str) else v) for n, v in headers.items() if v is not None]))

    def ask(self, correlation_id="abc", **more):
        self.send(response_required="true", correlation_id=correlation_id, **more)

    def answers(self):
        found = self.kafka.records(f"hono.command_response.{self.tenant}")
        return [(record, {name: value.decode() for name, value in record.headers}) for record in found]

    def next_answers(self, n):
        """The first n, however long they take."""
        return until(lambda: len(self.answers()) >= n and self.answers(), f"{n} answers")[:n]

    def ttds(self, device="d1"):
        events = [dict(r.headers) for r in self.kafka.records(f"hono.event.{self.tenant}") if r.key == device.encode()]
        return [int(event["ttd"]) for event in events if event["content-type"].decode() == EMPTY]
