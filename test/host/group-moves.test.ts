import { spawn } from 'node:child_process'
import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { expect } from 'chai'
import { readCgroupLayout, readGroupPids } from '../../agent/host/process/cgroup.js'
import { findOwnGroup, GroupMoves } from '../../agent/host/process/group-moves.js'
import { findProcess, readKernelFile } from '../../agent/host/process/proc.js'
import { waitFor } from '../support/wait.js'

describe('the code that moves processes between cgroups', () => {
  const cgroups = readCgroupLayout()
  const readOwn = (pid: number): string | undefined => readKernelFile(`/proc/${pid}/cgroup`)

  it('leaves the agent itself in its cgroup', async () => {
    const before = readOwn(process.pid)
    const moves = new GroupMoves(cgroups)
    for (let times = 0; times < 100; times++) moves.prepare()
    expect(readOwn(process.pid)).to.equal(before)
    moves.prepare()
    await waitFor(() => readOwn(process.pid) === before)
  })

  it('finds the cgroup of a running process, and finds no cgroup for an ended process', async () => {
    const [root] = cgroups.hierarchies
    const group = `${root}/btest-moves-${process.pid}`
    mkdirSync(group)
    const child = spawn('sleep', ['60'])
    try {
      writeFileSync(`${group}/cgroup.procs`, `${child.pid}`)
      const found = findOwnGroup({ ...cgroups, controllers: onlyOf(root) }, child.pid!)
      expect(found).to.equal(group)
    } finally {
      child.kill('SIGKILL')
      await waitFor(() => readGroupPids(group).length === 0)
      rmdirSync(group)
    }
    await waitFor(() => findProcess(child.pid!) === undefined)
    expect(findOwnGroup(cgroups, child.pid!)).to.equal(undefined)
  })

  function onlyOf(root: string | undefined): ReadonlyMap<string, string> {
    return new Map([...cgroups.controllers].filter(([, path]) => path === root))
  }
})
