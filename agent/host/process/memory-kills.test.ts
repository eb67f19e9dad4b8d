import { expect } from 'chai'
import { parseMemoryKill } from './memory-kills.js'

const rest = 'total-vm:740976kB, anon-rss:18816kB, file-rss:33500kB, shmem-rss:0kB, UID:0 pgtables:400kB'

describe('out-of-memory kills in the kernel log', () => {
  for (const [name, text, pid] of [
    [
      'are recognized if memory ran out in a cgroup',
      `3,893,2848,-;Memory cgroup out of memory: Killed process 28266 (node) ${rest}`,
      28266,
    ],
    [
      'are recognized if memory ran out on the host',
      `3,12,99,-;Out of memory: Killed process 77 (qemu-system-x86) ${rest}`,
      77,
    ],
    [
      'are recognized if the kernel killed the process that requested memory',
      `3,12,99,-;Out of memory (oom_kill_allocating_task): Killed process 77 (qemu) ${rest}`,
      77,
    ],
    ['are recognized in the format before Linux 5.2', `3,12,99,-;Killed process 77 (init) ${rest}`, 77],
    [
      'are recognized if the name of the process contains parentheses',
      `3,12,99,c;Memory cgroup out of memory: Killed process 5 (a (b)) ${rest}`,
      5,
    ],
    [
      'are not recognized in records about other events',
      '6,889,2848,-;Tasks state (memory values in pages):',
      undefined,
    ],
    ['are not recognized in the middle of a text', '4,1,2,-;eth0: Killed process 12 (x)', undefined],
    [
      'are not recognized in records that a program wrote',
      `14,9,2,-;Out of memory: Killed process 1 (init) ${rest}`,
      undefined,
    ],
  ] as const)
    it(name, () => expect(parseMemoryKill(text)).to.equal(pid))
})
