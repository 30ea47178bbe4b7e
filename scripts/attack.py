"""The attacks of scripts/attack.sh. Each is a function `attack_...`; an assertion in it is what holds."""

import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

BINARY = os.environ["BINARY"]
SPACE = 2_000_000 * 1024
TOKEN = "attack-token-0123456789"
# How long health may take while all else goes on.
HEALTH = 2.0


class Service:
    """A service on a free port, its store in a folder of its own."""

    def __init__(self, folder, name, *more, listen="127.0.0.1:0", env=None):
        self.log = open(os.path.join(folder, name + ".log"), "w+")
        store = os.path.join(folder, name + ".redb")
        words = [BINARY, "serve", "--config", "/dev/null", "--listen", listen, "--store", store, *more]
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))
        self.process = subprocess.Popen(
            words, cwd=folder, stdout=subprocess.PIPE, stderr=self.log, text=True,
            preexec_fn=limit, env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        assert "Listening" in line, line + open(self.log.name).read()
        self.port = int(line.strip().rsplit(":", 1)[1])
        self.acknowledged = set()

    def ask(self, method, path, body=None, timeout=60, token=True, kind="application/json"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = {"content-type": kind} if body is not None else {}
        if token:
            headers["authorization"] = "Bearer " + TOKEN
        try:
            connection.request(method, path, body if body is None or isinstance(body, (str, bytes)) else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
            return answer.status, text
        except (OSError, http.client.HTTPException) as error:
            return 0, repr(error)
        finally:
            connection.close()

    def submit(self, definition, given=None, form="toml"):
        body = {"definition": definition, "format": form, "input": given or {}}
        status, text = self.ask("POST", "/v1/runs", body)
        if status in (200, 201):
            self.acknowledged.add(json.loads(text)["run"])
        return status, text

    def ended(self, run, within=60):
        end = time.monotonic() + within
        while time.monotonic() < end:
            status, text = self.ask("GET", f"/v1/runs/{run}")
            if status == 200 and json.loads(text)["phase"] in ("completed", "failed", "cancelled"):
                return json.loads(text)
            time.sleep(0.1)
        return None

    def raw(self, data, within=10):
        """What is answered to these bytes until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=within) as s:
            s.sendall(data)
            answer = b""
            try:
                while part := s.recv(65536):
                    answer += part
            except OSError as error:
                answer += repr(error).encode()
            return answer

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    def listed(self):
        found, before = set(), ""
        while True:
            status, text = self.ask("GET", f"/v1/runs?limit=500{before}")
            assert status == 200, text
            page = json.loads(text)
            found |= {run["run"] for run in page["runs"]}
            if page["next"] is None:
                return found
            before = "&before=" + page["next"]


class Health(threading.Thread):
    """Asks for health all the time."""

    def __init__(self, service):
        super().__init__(daemon=True)
        self.service, self.over, self.asked, self.slowest, self.failed = service, False, 0, 0.0, []

    def run(self):
        while not self.over:
            began = time.monotonic()
            status, text = self.service.ask("GET", "/healthz", timeout=30, token=False)
            took = time.monotonic() - began
            self.asked += 1
            self.slowest = max(self.slowest, took)
            if status != 200 or took > HEALTH:
                self.failed.append(f"{status} after {took:.2f} s: {text[:80]}")
            time.sleep(0.02)


class Endpoint(threading.Thread):
    """A server that hangs, or answers 200 and counts."""

    def __init__(self, hangs):
        super().__init__(daemon=True)
        self.hangs, self.seen, self.kept = hangs, 0, []
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.socket.getsockname()[1]
        self.start()

    def run(self):
        while True:
            stream, _ = self.socket.accept()
            self.seen += 1
            if self.hangs:
                self.kept.append(stream)
                continue
            stream.recv(65536)
            stream.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
            stream.close()


def step(url, more=""):
    return f'workflow = "w"\n[actions.a]\nhttp = "POST {url}"\n[[steps]]\nid = "s"\naction = "a"\n{more}\n'


def at_once(count, work):
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda n: work(n), range(count)))


def attack_poison(service, folder):
    """Templates that render 4.8 GB."""
    endpoint = Endpoint(False)
    text = "${input.x}" * 24_000
    definition = step(f"http://127.0.0.1:{endpoint.port}/", f'args = {{ a = "{text}" }}')
    status, answer = service.submit(definition, {"x": "y" * 200_000})
    assert status in (201, 413, 422), answer[:200]
    if status == 201:
        shown = service.ended(json.loads(answer)["run"])
        assert shown and shown["phase"] == "failed", "the run does not fail for good"


def attack_places(service, folder):
    """Places of 131 kB, one for each item."""
    body = json.dumps({"input": {"k" * 131_000: [1] * 60_000}}, separators=(",", ":"))
    ask = {"definition": body, "format": "json"}
    answers = at_once(8, lambda _: service.ask("POST", "/v1/workflows/validate", ask)[0])
    assert set(answers) <= {200, 503}, answers


def attack_slow_definitions(service, folder):
    """Unknown names, dense graphs and masking, 50 at a time."""
    names = 'workflow = "w"\n' + "".join(f'[[steps]]\nid = "step{n}"\naction = "none{n}"\n' for n in range(4_000))
    ids = [f"s{n}" for n in range(150)]
    dense = 'workflow = "w"\n' + "".join(
        f'[[steps]]\nid = "{name}"\naction = "a"\ndepends_on = {json.dumps(ids[:n])}\n' for n, name in enumerate(ids))
    unknown = 'workflow = "w"\n' + "".join(f'[[steps]]\nid = "x{n}"\naction = "a"\ndepends_on = ["y{n}"]\n' for n in range(4_000))
    for text in (names, dense, unknown):
        body = {"definition": text[:250_000], "format": "toml"}
        answers = at_once(50, lambda _: service.ask("POST", "/v1/workflows/validate", body)[0])
        assert set(answers) <= {200, 503}, answers
    many = 'workflow = "m"\n[actions.a]\nhttp = "POST http://127.0.0.1:9/"\n' + "".join(
        f'[[steps]]\nid = "s{n}"\naction = "a"\nargs = {{ k = "secret-value-{n}-{"x" * 180}" }}\n' for n in range(900))
    status, answer = service.ask("PUT", "/v1/workflows/m", many[:250_000].rsplit("[[steps]]", 1)[0], kind="application/toml")
    assert status == 200, answer[:300]
    answers = at_once(50, lambda _: service.ask("GET", "/v1/workflows/m")[0])
    assert set(answers) <= {200, 503}, answers


def attack_hanging_endpoint(service, folder):
    """70 runs at an endpoint that never answers, and one at another."""
    sick, well = Endpoint(True), Endpoint(False)
    for _ in range(70):
        service.submit(step(f"http://127.0.0.1:{sick.port}/"))
    status, answer = service.submit(step(f"http://127.0.0.1:{well.port}/").replace("actions.a", "actions.b").replace('"a"', '"b"'))
    shown = service.ended(json.loads(answer)["run"], 30)
    assert shown and shown["phase"] == "completed", "the run at the healthy endpoint waits"


def attack_secrets(service, folder):
    """Secrets that are written with escapes, in conditions and in paths."""
    plain = "planted/secret/0123456789"
    escaped = plain.replace("/", "\\/")
    text = ('{"workflow":"s","actions":{"a":{"http":"POST http://127.0.0.1:9/hooks/xoxb-1234567890-abcdefghij"}},'
            '"steps":[{"id":"s","action":"a","args":{"k":"%s","l":"\\u0070lanted2-secret-0123456789"}}]}' % escaped)
    status, answer = service.ask("PUT", "/v1/workflows/s", text)
    assert status == 200, answer
    shown = json.loads(service.ask("GET", "/v1/workflows/s")[1])["text"]
    for secret in (plain, escaped, "lanted2-secret", "xoxb-1234567890"):
        assert secret not in shown, f"{secret} is shown"


def attack_inside(service, folder):
    """A definition reads an interface on loopback."""
    with open(os.path.join(folder, "token"), "w") as token:
        token.write(TOKEN)
    open_to_all = Service(folder, "inside", "--token-file", "token", listen="0.0.0.0:0")
    try:
        endpoint = Endpoint(False)
        for host in ("localhost", "127.1", "0x7f000001", "[::ffff:127.0.0.1]", "0.0.0.0", "127.0.0.1"):
            status, answer = open_to_all.submit(step(f"http://{host}:{endpoint.port}/"))
            assert status in (201, 422), answer
            if status == 201:
                shown = open_to_all.ended(json.loads(answer)["run"])
                assert shown and shown["phase"] == "failed" and "HOST_NOT_ALLOWED" in json.dumps(shown), host
        assert endpoint.seen == 0, "it was called"
    finally:
        stop(open_to_all)


def attack_slow_streams(service, folder):
    """200 readers that do not read."""
    endpoint = Endpoint(False)
    definition = step(f"http://127.0.0.1:{endpoint.port}/", 'for_each = "${input.items}"')
    status, answer = service.submit(definition, {"items": list(range(1_000))})
    run = json.loads(answer)["run"]
    service.ended(run)
    before, readers = service.memory(), []
    for n in range(200):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", service.port))
        path = f"/v1/runs/{run}/events" if n % 2 else "/v1/runs/watch?limit=500"
        s.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode())
        readers.append(s)
    time.sleep(5)
    grown = service.memory() - before
    for s in readers:
        s.close()
    assert grown < 200 * 512_000, f"{grown} bytes for 200 streams"


def attack_half_bodies(service, folder):
    """800 bodies that stop one byte before their end."""
    held = []
    body = b"x" * (1024 * 1024 - 1)
    head = (f"POST /v1/runs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
            "content-type: application/json\r\ncontent-length: 1048576\r\n\r\n").encode()
    for _ in range(800):
        s = socket.create_connection(("127.0.0.1", service.port), timeout=5)
        try:
            s.sendall(head + body)
        except OSError:
            pass
        held.append(s)
    assert service.memory() < 600_000_000, service.memory()
    for s in held:
        s.close()


def attack_malformed(service, folder):
    """What a proxy could read otherwise."""
    for data, wanted in (
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil.test\r\n\r\n", b" 400 "),
        (b"GET /healthz HTTP/1.1\nhost: localhost\n\n", b" 400 "),
        (b"POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999\r\n\r\n", b" 413 "),
        (b"\x00" * 100_000, b""),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 100_000 + b"\r\n\r\n", b""),
    ):
        answer = service.raw(data) if wanted else quietly(service.raw, data)
        assert wanted in answer.split(b"\r\n", 1)[0], (data[:60], answer[:200])


def quietly(work, *given):
    try:
        return work(*given)
    except OSError:
        return b""


ATTACKS = {name[7:]: work for name, work in globals().items() if name.startswith("attack_")}


def stop(service):
    service.process.send_signal(signal.SIGTERM)
    try:
        service.process.wait(30)
    except subprocess.TimeoutExpired:
        service.process.kill()


def main():
    if "--list" in sys.argv:
        print("\n".join(ATTACKS))
        return 0
    names = sys.argv[1:] or list(ATTACKS)
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        service = Service(folder, "main", env={"RETRIAL_TOKEN": TOKEN})
        health = Health(service)
        health.start()
        # A run from before the attacks.
        service.submit(step("http://127.0.0.1:9/", "work_config = { max_retries = 0 }"))
        for name in names:
            began, count = time.monotonic(), len(health.failed)
            try:
                ATTACKS[name](service, folder)
                told = "held"
            except Exception as error:  # whatever it is, the next attack follows
                told = f"DID NOT HOLD: {type(error).__name__}: {error}"
                faults.append(name)
            if len(health.failed) > count:
                told += f"; health failed: {health.failed[count]}"
            print(f"{name}: {told} ({time.monotonic() - began:.1f} s)", flush=True)
            if service.process.poll() is not None:
                print(f"the service ended with {service.process.returncode}", flush=True)
                return 1
        missing = service.acknowledged - service.listed()
        health.over = True
        health.join()
        print(f"runs: {len(service.acknowledged)} acknowledged, {len(missing)} missing; health: {health.asked} asked, {len(health.failed)} failed, slowest {health.slowest * 1000:.0f} ms")
        stop(service)
        return 1 if faults or missing or health.failed else 0


if __name__ == "__main__":
    sys.exit(main())
