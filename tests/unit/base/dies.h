/* Tests of what CHECK refuses: does fn(arg) abort? It runs in a child whose standard error goes nowhere. Included by
   the unit tests of base/ after cmocka.h. */
#ifndef TESTS_BASE_DIES_H
#define TESTS_BASE_DIES_H

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static bool dies(void (*fn)(void *arg), void *arg)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        fn(arg);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif
