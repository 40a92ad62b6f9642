/* proxy/policy_test: `doorward test`: the unit tests of policies, by the engine in this process. */
#ifndef PROXY_POLICY_TEST_H
#define PROXY_POLICY_TEST_H

/* argv[0] is the subcommand. The exit code: 0 at least one test ran and all passed; 1 one failed, none ran, or the program
   is built without the engine; 2 wrong usage; 78 what is to be tested cannot be read or compiled. */
int policy_test(int argc, char **argv);

#endif
