import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'chai'
import { readFlags, readInterfaces } from '../../agent/host/interfaces.js'

describe('interfaces as the kernel shows them', () => {
  const pairs = Array.from({ length: 50 }, (_, id) => [`btestia${id}`, `btestib${id}`] as const)
  const names = pairs.flat()
  const batch = (lines: readonly string[]): void => {
    execFileSync('ip', ['-force', '-batch', '-'], { input: lines.join('\n'), stdio: 'pipe' })
  }
  const left = (): string[] => names.filter((name) => readInterfaces().has(name))
  const removeAll = (): void => {
    for (const name of left()) if (readInterfaces().has(name)) execFileSync('ip', ['link', 'delete', name])
  }

  beforeEach(removeAll)
  afterEach(removeAll)

  it('one that is being deleted reads as gone, and never fails', async () => {
    batch(pairs.map(([one, other]) => `link add ${one} type veth peer name ${other}`))
    expect(left()).to.have.length(100)
    const deletion = spawn('ip', ['-batch', '-'])
    const ended = once(deletion, 'close')
    deletion.stdin.end(pairs.map(([one]) => `link delete ${one}`).join('\n'))
    let running = true
    void ended.then(() => (running = false))
    while (running) {
      for (const name of names) readFlags(name)
      await new Promise(setImmediate)
    }
    expect(names.map(readFlags).filter(Boolean)).to.deep.equal([])
  })
})
