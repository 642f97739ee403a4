#include "muster/console/console.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/console/api_request.h"
#include "muster/console/cluster_api.h"
#include "muster/console/live_updates.h"
#include "muster/console/pages.h"
#include "muster/console/registry_api.h"
#include "muster/console/runs_api.h"
#include "muster/console/studies_api.h"
#include "muster/console/study_changes.h"
#include "muster/console/try_api.h"

namespace muster::console {
namespace {

using nlohmann::json;
using serving::HttpRequest;
using serving::HttpResponse;

constexpr std::string_view kApi = "/api/";
const std::string kNothing;
// Smaller answers fit one packet anyway.
constexpr std::size_t kWorthCompressing = 1400;

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

void compress(bool accepts_gzip, HttpResponse& answer) {
  if (!accepts_gzip || answer.stream || answer.body.size() < kWorthCompressing) return;
  for (const auto& [name, value] : answer.headers) {
    if (name == "Content-Encoding") return;
  }
  answer.body = serving::gzipped(answer.body);
  answer.headers.emplace_back("Content-Encoding", "gzip");
  answer.headers.emplace_back("Vary", "Accept-Encoding");
}

}  // namespace

struct Console::Impl {
  RequestGuard guard;
  Pages pages{};
  LiveUpdates updates{};
  StoreMirrors mirrors;
  RunsApi runs;
  StudiesApi studies;
  std::optional<JobsApi> jobs{};
  std::optional<ClusterApi> cluster{};
  std::optional<ModelsApi> models{};
  std::optional<TryApi> tries{};
  std::optional<RegistryApi> registry{};

  explicit Impl(ConsoleOptions options)
      : guard(std::move(options.guard)),
        mirrors(std::move(options.log_folders), options.mirrors),
        runs(mirrors, updates),
        studies([this] { return places(); }) {
    if (options.jobs) {
      jobs.emplace(std::move(*options.jobs), updates);
      cluster.emplace(jobs->store());
    }
    if (!options.models_dir.empty()) {
      registry.emplace(options.models_dir,
                       [this](const Path& folder) { return runs.store().id_of(folder); });
    }
    if (options.models.servers.empty()) return;
    tries.emplace(options.models_dir, runs.store(), std::move(options.examples));
    models.emplace(std::move(options.models));
  }

  std::vector<StudiesApi::Place> places() const {
    std::vector<StudiesApi::Place> found;
    for (const Path& folder : runs.store().folders()) {
      std::string trial = runs.store().id_of(folder / "1");
      trial.pop_back();
      found.push_back(
          {.id = runs.store().id_of(folder), .folder = folder, .runs = std::move(trial)});
    }
    return found;
  }

  HttpResponse answer(HttpRequest& request) {
    guard.check_origin(request);
    const std::string_view path = path_of(request.target);
    if (path.starts_with(kApi)) return api(request);
    if (request.method != "GET") throw Unimplemented("pages are read with GET");
    return pages.answer(request, path);
  }

  HttpResponse api(HttpRequest& request) {
    guard.check_read(request);
    HttpResponse answer = request.method == "POST" ? post(request) : get(request);
    if (!answer.stream) answer.headers.emplace_back("Cache-Control", "no-store");
    return answer;
  }

  HttpResponse get(HttpRequest& request) {
    if (request.method != "GET") throw Unimplemented("there is no such call");
    const ApiRequest call = ApiRequest::parse(std::move(request));
    const std::string& what = call.path.size() > 1 ? call.path[1] : kNothing;
    if (what == "jobs" && jobs) return get_jobs(call);
    if (what == "cluster" && cluster && call.path.size() == 3) return cluster->show(call.path[2]);
    if (what == "models" && models) {
      if (call.path.size() == 2) return models->list();
      if (call.path.size() == 4 && call.path[3] == "nodes") return models->nodes(call);
      if (call.path.size() == 5) return models->metadata(call);
      if (call.path.size() == 6 && call.path[5] == "form") return tries->form(call);
      if (call.path.size() == 6 && call.path[5] == "rows") return tries->rows(call);
    }
    if (call.path.size() != 2) throw NotFound("there is no such call");
    if (what == "links" && jobs) return links(call);
    if (what == "registry" && registry) return registry->list();
    if (what == "session") return session();
    if (what == "live") return updates.listen();
    if (what == "runs") return runs.list();
    if (what == "run") return runs.show(call);
    if (what == "scalars") return runs.scalars(call);
    if (what == "scalars.csv") return runs.csv(call);
    if (what == "media") return runs.media(call);
    if (what == "media.item") return runs.media_item(call);
    if (what == "media.bands") return runs.media_bands(call);
    if (what == "studies") return studies.list();
    if (what == "study.contour") return studies.contour(call);
    if (what == "study") return studies.show(call.first("id").value_or(""));
    throw NotFound("there is no such call");
  }

  // The job of a run, ?run=ID; the run or study of a job, ?job=NAME.
  HttpResponse links(const ApiRequest& call) const {
    json found = json::object();
    if (const auto run = call.first("run")) {
      const Path folder = runs.store().summary(*run).folder;
      auto job = jobs->job_of(folder);
      if (!job) job = jobs->job_of(folder.parent_path());
      if (job) found["job"] = job->job_id;
    } else if (const auto name = call.first("job")) {
      jobs::check_job_name(*name);
      const Path folder = JobsApi::folder_of(jobs->store().read(*name));
      const std::string id = folder.empty() ? "" : runs.store().id_of(folder);
      if (id.empty()) return {.body = found.dump()};
      if (studies.has(id)) {
        found["study"] = id;
      } else if (runs.store().has(id)) {
        found["run"] = id;
      }
    }
    return {.body = found.dump(-1, ' ', false, json::error_handler_t::replace)};
  }

  HttpResponse get_jobs(const ApiRequest& call) {
    if (call.path.size() == 2) return jobs->list();
    if (call.path.size() == 3) return jobs->show(call.path[2]);
    if (call.path.size() == 4 && call.path[3] == "log") return jobs->follow_log(call.path[2], call);
    throw NotFound("there is no such call");
  }

  // Predictions change nothing; all else that pages send does.
  HttpResponse post(HttpRequest& request) {
    const bool is_prediction = path_of(request.target).ends_with("/predict");
    is_prediction ? guard.check_page(request) : guard.check_change(request);
    const ApiRequest call = ApiRequest::parse(std::move(request));
    const std::string& what = call.path.size() > 1 ? call.path[1] : kNothing;
    const std::string& action = call.path.size() > 3 ? call.path.back() : kNothing;
    if (is_prediction) {
      if (what == "models" && models && call.path.size() == 6) return models->predict(call);
      throw NotFound("there is no such call");
    }
    if (what == "run" && call.path.size() == 3 && call.path[2] == "notes") {
      return runs.set_notes(call);
    }
    if (what == "study" && jobs && call.path.size() == 3) return change_study(call);
    if (what == "jobs" && jobs && call.path.size() == 4 && action == "cancel") {
      return jobs->cancel(call.path[2]);
    }
    if (what == "jobs" && jobs && call.path.size() == 4 && action == "priority") {
      return jobs->set_priority(call.path[2], call);
    }
    if (what == "jobs" && jobs && call.path.size() == 4 && action == "resubmit") {
      return jobs->resubmit(call.path[2], call);
    }
    if (what == "registry" && registry && call.path.size() == 5 && action == "stage") {
      return registry->set_stage(call);
    }
    if (what == "models" && models && call.path.size() == 6 && action == "default") {
      return models->set_default(call);
    }
    throw NotFound("there is no such call");
  }

  HttpResponse change_study(const ApiRequest& call) {
    if (mirrors.is_mirrored(studies.find(call.first("id").value_or("")).folder)) {
      throw FailedPrecondition("the study is in a store: `muster tune` resumes it");
    }
    StudyChanges changes(studies, *jobs);
    if (call.path[2] == "stop") return changes.stop(call);
    if (call.path[2] == "extend") return changes.extend(call);
    throw NotFound("there is no such call");
  }

  HttpResponse session() const {
    return {.body = json{{"pageSecret", guard.page_secret()},
                         {"allowChanges", guard.allow_changes()},
                         {"hasJobs", jobs.has_value()},
                         {"hasModels", models.has_value()},
                         {"hasRegistry", registry.has_value()},
                         {"version", MUSTER_VERSION}}
                        .dump()};
  }
};

Console::Console(ConsoleOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Console::~Console() = default;

void Console::close() {
  impl_->updates.close();
  if (impl_->jobs) impl_->jobs->close();
}

HttpResponse Console::handle(HttpRequest request) noexcept {
  const bool accepts_gzip = serving::accepts(request.header("Accept-Encoding"), "gzip");
  HttpResponse answer;
  try {
    answer = impl_->answer(request);
    compress(accepts_gzip, answer);
  } catch (...) {
    const Description failure = describe(std::current_exception());
    answer = serving::error_answer_of(failure.code, failure.message);
  }
  add_security_headers(answer);
  return answer;
}

std::optional<std::string> Console::queue_of(const HttpRequest& request) {
  if (request.target.starts_with(kApi)) return "api";
  return std::nullopt;
}

}  // namespace muster::console
