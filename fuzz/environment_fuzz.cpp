// The variables of launchers, one NAME=value a line.
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/platform/cluster/explanation.h"
#include "muster/platform/cluster/task_spec_def.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::EnvironmentVariables variables;
  for (const auto line : muster::lines_of({reinterpret_cast<const char*>(data), size})) {
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    variables[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  try {
    muster::explain(variables);
  } catch (const muster::Error&) {
  }
  try {
    if (const auto spec = muster::create_task_spec_def(variables)) {
      spec->use_last_worker_as_evaluator().to_task_environment();
    }
  } catch (const muster::Error&) {
  }
  return 0;
}

namespace muster::fuzz {

std::vector<std::string> seeds() {
  return {
      "JOB_NAME=worker\nTASK_INDEX=1\nPS_HOSTS=p:1,q:2\nWORKER_HOSTS=w:3, v:4\nMASTER_HOST=m:5\n",
      "RANK=2\nWORLD_SIZE=4\nMASTER_ADDR=fe80::1\nMASTER_PORT=29500\n",
      "OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=3\nOMPI_COMM_WORLD_LOCAL_SIZE=3\n",
      "SLURM_JOB_ID=9\nSLURM_STEP_ID=0\nSLURM_PROCID=3\nSLURM_STEP_NUM_TASKS=5\n"
      "SLURM_STEP_NODELIST=n[1-2],r[0-1]c[07,9]\nSLURM_STEP_TASKS_PER_NODE=1(x4),1\n"
      "MUSTER_NUM_PS=1\n",
      "TF_CONFIG={\"cluster\":{\"chief\":[\"a:1\"]},\"task\":{\"type\":\"chief\",\"index\":0}}\n"
      "SLURM_STEP_ID=1\nSLURM_PROCID=0\n",
  };
}

// A list of a few bytes may name 65,536 hosts.
MemoryBound memory_bound() {
  return {.base_bytes = std::size_t{128} << 20, .bytes_per_input_byte = 256};
}

}  // namespace muster::fuzz
