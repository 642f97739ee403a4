// `muster console`: jobs, runs, studies and models in a browser.
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/semaphore.h"
#include "muster/base/signals.h"
#include "muster/base/wait.h"
#include "muster/cli/command.h"
#include "muster/cli/console_flags.h"
#include "muster/cli/http_call.h"
#include "muster/cli/jobs.h"
#include "muster/console/console.h"
#include "muster/serving/http/http_server.h"
#include "muster/serving/listener/access.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kMostPemBytes = 1 << 20;
constexpr std::size_t kMostBodyBytes = std::size_t{16} << 20;
constexpr std::size_t kMostConnections = 1000;
constexpr std::chrono::seconds kDrainTime{2};

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

// "http://localhost:8501/" is "localhost:8501".
std::string address_of(std::string url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with(kScheme)) url.erase(0, kScheme.size());
  if (url.ends_with('/')) url.pop_back();
  if (url.find(':') == url.npos || url.find_first_of("/ \t\r\n") != url.npos) {
    throw UsageError("--server must be HOST:PORT or http://HOST:PORT: {}", url);
  }
  return url;
}

console::ServerReply ask_server(const std::string& server, const std::string& method,
                                const std::string& path, const std::string& body) {
  HttpReply reply = http_call(server, method, path, body);
  return {.status = reply.status, .body = std::move(reply.body)};
}

serving::TlsOptions tls_of(const ConsoleFlags& flags) {
  if (flags.tls_certificate.empty() != flags.tls_key.empty()) {
    throw UsageError("--tls-certificate and --tls-key belong together");
  }
  if (flags.tls_key.empty()) return {};
  return {.certificate = read_file(flags.tls_certificate, kMostPemBytes),
          .key = read_file(flags.tls_key, kMostPemBytes)};
}

serving::Access access_of(const ConsoleFlags& flags) {
  serving::Access access;
  if (!flags.tokens_file.empty()) access = serving::Access::from_file(flags.tokens_file);
  if (is_loopback(flags.address)) return access;
  if (!access.has_tokens()) {
    throw UsageError(
        "--address {}: other hosts can reach this console, so --tokens-file must say who may look",
        flags.address);
  }
  if (access.has_short_token()) {
    throw UsageError(
        "--tokens-file {} has a token that can be guessed, and other hosts can reach this console "
        "(--address {}): give each {} characters or more, such as openssl rand -base64 24 prints",
        flags.tokens_file, flags.address, serving::Access::kSafeTokenCharacters);
  }
  return access;
}

// $XDG_CACHE_HOME, or ~/.cache; empty where neither is known.
Path cache_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return cache;
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? Path(home) / ".cache" : Path();
}

console::ConsoleOptions console_options(const ConsoleFlags& flags) {
  console::ConsoleOptions options;
  for (const std::string& folder : flags.log_folders) options.log_folders.emplace_back(folder);
  if (options.log_folders.empty()) options.log_folders.emplace_back(".");
  if (const Path cache = cache_folder(); !cache.empty()) {
    options.mirrors.cache = cache / "muster" / "console";
  }
  options.mirrors.pause = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(flags.store_seconds));
  const JobsFlags jobs_flags{.jobs_dir = flags.jobs_folder};
  const jobs::JobStore store = job_store(jobs_flags);
  options.jobs = {.folder = store.folder(), .supervise_command = store.supervise_command()};
  options.models_dir = flags.models_folder;
  for (const std::string& server : flags.servers)
    options.models.servers.push_back(address_of(server));
  options.models.call = ask_server;
  options.examples.folders.assign(flags.data_folders.begin(), flags.data_folders.end());
  options.examples.csv_columns = flags.csv_columns;
  options.guard.host_names = flags.host_names;
  options.guard.host_names.push_back(flags.address);
  options.guard.is_tls = !flags.tls_key.empty();
  options.guard.allow_changes = flags.allow_changes;
  options.guard.access = access_of(flags);
  return options;
}

serving::HttpServerOptions server_options(const ConsoleFlags& flags) {
  return {.address = flags.address,
          .port = flags.port,
          .tls = tls_of(flags),
          .io_threads = 2,
          .workers = 4,
          .max_connections = kMostConnections,
          .max_body_bytes = kMostBodyBytes};
}

void run_console(const ConsoleFlags& flags) {
  log::set_task("console");
  console::Console console(console_options(flags));
  serving::HttpServer server(
      server_options(flags),
      [&](serving::HttpRequest request) { return console.handle(std::move(request)); },
      console::Console::queue_of);
  const bool is_six = flags.address.find(':') != std::string::npos;
  log::info("the console is at {}://{}:{}/", flags.tls_key.empty() ? "http" : "https",
            is_six ? "[" + flags.address + "]" : flags.address, server.port());
  Semaphore stopped(0);
  const StopSignals signals([&](int) { stopped.release(); });
  stopped.acquire();
  console.close();
  server.drain(Deadline::after(kDrainTime));
}

}  // namespace

void add_console(CLI::App& command) {
  const auto flags = std::make_shared<ConsoleFlags>();
  add_console_flags(command, *flags);
  command.callback([flags] { run_console(*flags); });
}

}  // namespace muster::cli
