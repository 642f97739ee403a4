extern muster::FeatureColumnList columns;
extern muster::RunConfig config;
extern muster::InputFn train_input, test_input;
