// What main() is given.
extern int argc;
extern char** argv;
