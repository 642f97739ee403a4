extern const muster::LinearOptions options;
extern const muster::RunConfig config;
