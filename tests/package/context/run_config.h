extern muster::Estimator estimator;
extern muster::InputFn train_input;
