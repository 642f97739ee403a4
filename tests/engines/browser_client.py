"""Asks a REST server from a page of another origin, by a browser's fetch:  browser_client.py HOST:PORT MODEL

Prints a line an answer. Ends with 77 where chromium or its driver is not installed.
"""
import http.server
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "console"))
from webdriver import Browser, find_browser


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>page</title>")

    def log_message(self, *_):
        pass


FETCH = """
  const [url, body, type] = arguments;
  try {
    const answer = await fetch(url, body === null ? {} : {method: 'POST', body, headers: {'Content-Type': type}});
    return answer.status + ' ' + (await answer.text()).replace(/\\s+/g, ' ').trim();
  } catch (error) {
    return error.name;
  }"""


def main():
    server, model = sys.argv[1], sys.argv[2]
    if not find_browser():
        sys.exit(77)
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    with Browser() as browser:
        browser.open("http://127.0.0.1:%d/" % pages.server_address[1])

        def ask(name, path, body=None, type="application/json"):
            print(name, browser.run(FETCH, "http://%s%s" % (server, path), body, type))

        models = "/v1/models/"
        ask("status", models + model)
        # JSON is asked for beforehand, by OPTIONS; text is not.
        ask("predict", models + model + ":predict", '{"instances": [1, 2.5]}')
        ask("columns", models + model + ":predict", '{"inputs": [3]}', "text/plain")
        ask("unknown-model", models + "nobody:predict", '{"instances": [1]}')
        ask("no-json", models + model + ":predict", "{")
        ask("infer", "/v2/models/%s/infer" % model,
            '{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [4]}]}')
        ask("cloud", "/v1/projects/p/models/%s:predict" % model, '{"instances": [7]}')


main()
