import { expect } from 'chai'
import { findProcess } from '../../host/process/proc.js'
import { describeOutdated, listOutdated } from './outdated.js'
import type { LxcRuntime } from './runtime.js'

describe('guests that an older agent started', () => {
  const monitor = findProcess(process.pid)!
  const runtime = {
    listNames: () => ['bt-1', 'bt-2'],
    read: (name: string): LxcRuntime =>
      name === 'bt-1' ? { state: 'running', monitor, restarters: [] } : { state: 'stopped', restarters: [] },
  }

  it('are listed as outdated if they lack restrictions that this agent sets', () => {
    const found = listOutdated(runtime, 'bt', 'today')
    expect(found.map(({ name }) => name)).to.deep.equal(['bt-1'])
    expect(describeOutdated(found).join()).to.match(/: bt-1$/)
  })

  it('are no longer listed as outdated after they have restarted', () => {
    const before = { ...monitor, startTime: monitor.startTime - 1 }
    expect(describeOutdated([{ name: 'bt-1', monitor: before }])).to.deep.equal([])
  })
})
