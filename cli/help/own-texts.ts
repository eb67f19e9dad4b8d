import type { GlobalFlag } from '../catalog/operation.js'

/* Texts for the help of commands that are not operations of the API. */

/** Examples of commands, in addition to those in their descriptions. */
export const ownExamples: Readonly<Record<string, string>> = {
  events: 'events -f --kinds guest,task',
  console: 'console web1',
  logs: 'logs web1 ssh.service -f',
  why: 'why web1 80',
  migrate: 'migrate web1 node2',
  drain: 'drain node1 --deadline +2h',
  apply: 'apply -f fleet.yaml --dry-run',
  export: 'export > fleet.yaml',
  mcp: 'mcp --read-only',
  login: 'login https://panel.example.com',
  completion: 'completion bash > /etc/bash_completion.d/berth',
}

/** Global flags in the help of commands. Default: only `--context`. */
export const ownGlobalFlags: Readonly<Record<string, readonly GlobalFlag[]>> = {
  api: ['jq', 'context'],
  events: ['output', 'context'],
  doctor: ['output', 'jq', 'context'],
  top: ['output', 'jq', 'context'],
  why: ['output', 'jq', 'context'],
  migrate: ['output', 'jq', 'quiet', 'context', 'wait', 'timeout'],
  drain: ['quiet', 'context', 'wait', 'timeout'],
  apply: ['output', 'jq', 'quiet', 'context', 'timeout'],
  export: ['output', 'jq', 'context'],
  login: [],
  completion: [],
}

/** Texts of arguments. */
export const ownArguments: Readonly<Record<string, string>> = {
  guest: 'name, id or UUID of the guest',
  host: 'name, id or UUID of the host',
  method: 'GET, POST, PUT, PATCH or DELETE',
  path: 'path with its query, in quotes if it contains ? or &',
  command: 'program with its arguments, after --',
  unit: 'unit of systemd, such as ssh.service',
  source: 'file on this machine, or GUEST:PATH',
  target: 'file or directory on this machine, or GUEST:PATH',
  port: 'TCP port of the guest',
  url: 'address of the panel, such as https://panel.example.com',
  shell: 'bash, zsh or fish',
}
