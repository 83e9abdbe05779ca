// Go's os/exec: a context with a deadline, Cancel that signals the group, WaitDelay, and the group killed at the end.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

type task struct {
	Runs         [][]string `json:"runs"`
	Directory    string     `json:"directory"`
	Cwd          *string    `json:"cwd"`
	TimeoutS     float64    `json:"timeout_s"`
	GraceS       float64    `json:"grace_s"`
	InputBytes   int        `json:"input_bytes"`
	Stream       bool       `json:"stream"`
	CancelAfterS *float64   `json:"cancel_after_s"`
}

type answer struct {
	Status      string  `json:"status"`
	Cause       *string `json:"cause"`
	ExitCode    *int    `json:"exit_code"`
	Signal      *int    `json:"signal"`
	Stdout      *string `json:"stdout"`
	Stderr      *string `json:"stderr"`
	StdoutBytes *int64  `json:"stdout_bytes"`
	Tree        *string `json:"tree"`
	Note        *string `json:"note"`
	Seconds     float64 `json:"seconds"`
}

type counter struct{ count int64 }

func (c *counter) Write(part []byte) (int, error) {
	c.count += int64(len(part))
	return len(part), nil
}

func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }

func run(asked task, argv []string, place string) answer {
	outer, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx, done := context.WithTimeout(outer, seconds(asked.TimeoutS))
	defer done()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = seconds(asked.GraceS)
	if asked.Cwd != nil {
		cmd.Dir = *asked.Cwd
	}
	var out, err bytes.Buffer
	var count counter
	cmd.Stdout, cmd.Stderr = &out, &err
	if asked.Stream {
		cmd.Stdout = &count
	}
	if asked.InputBytes > 0 {
		cmd.Stdin = bytes.NewReader(make([]byte, asked.InputBytes))
	}
	if failed := cmd.Start(); failed != nil {
		cause, note := "spawn", failed.Error()
		return answer{Status: "failed", Cause: &cause, Note: &note}
	}
	if asked.CancelAfterS != nil {
		time.AfterFunc(seconds(*asked.CancelAfterS), cancel)
	}
	failed := cmd.Wait()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes that the command left in its group
	found := judge(ctx, cmd, failed)
	os.WriteFile(place+".stdout", out.Bytes(), 0o600)
	os.WriteFile(place+".stderr", err.Bytes(), 0o600)
	stdout, stderr := place+".stdout", place+".stderr"
	found.Stdout, found.Stderr = &stdout, &stderr
	if asked.Stream {
		found.StdoutBytes = &count.count
	}
	return found
}

// The answer from Wait's error, and from the context where that error alone would hide the cause.
func judge(ctx context.Context, cmd *exec.Cmd, failed error) answer {
	found := answer{Status: "failed"}
	set := func(status, cause string) { found.Status, found.Cause = status, &cause }
	if failed != nil {
		note := failed.Error()
		found.Note = &note
	}
	if cmd.ProcessState != nil {
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			number := int(status.Signal())
			found.Signal = &number
		} else {
			code := status.ExitStatus()
			found.ExitCode = &code
		}
	}
	held := errors.Is(failed, exec.ErrWaitDelay)
	var exit *exec.ExitError
	switch {
	case failed != nil && !errors.As(failed, &exit) && !held && ctx.Err() == nil:
		found.Status = "error" // neither the command's exit nor a stop: copying its input or output failed
	case failed != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !(held && cmd.ProcessState.Success()):
		set("timed_out", "deadline")
	case failed != nil && errors.Is(ctx.Err(), context.Canceled):
		set("cancelled", "user")
	case found.Signal != nil:
		set("failed", "signal")
	case found.ExitCode != nil && *found.ExitCode == 0:
		set("succeeded", "exit")
	default:
		set("failed", "exit")
	}
	return found
}

func say(message any) {
	line, _ := json.Marshal(message)
	fmt.Println(string(line))
}

func main() {
	var asked task
	if err := json.Unmarshal([]byte(os.Args[1]), &asked); err != nil {
		panic(err)
	}
	say(map[string]any{"supervisor": os.Getpid()})
	say(map[string]any{"ready": true})
	for number, argv := range asked.Runs {
		begin := time.Now()
		found := run(asked, argv, filepath.Join(asked.Directory, strconv.Itoa(number)))
		found.Seconds = time.Since(begin).Seconds()
		say(map[string]any{"answer": found})
	}
	io.Copy(io.Discard, os.Stdin)
}
