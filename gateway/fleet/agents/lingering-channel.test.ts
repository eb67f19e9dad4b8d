import { expect } from 'chai'
import { EventEmitter } from 'node:events'
import { LingeringChannel } from './lingering-channel.js'

describe('a channel for long calls', () => {
  let closes: number
  let channel: LingeringChannel
  beforeEach(() => {
    closes = 0
    channel = new LingeringChannel(() => closes++)
  })

  it('is closed at once if no call uses it', () => {
    channel.close()
    expect(closes).to.equal(1)
  })

  it('is closed when the last of its calls has ended, with or without an error', () => {
    const [first, second, ended] = [new EventEmitter(), new EventEmitter(), new EventEmitter()]
    for (const call of [first, second, ended]) channel.hold(call)
    ended.emit('status')
    channel.close()
    first.emit('error', new Error('failed'))
    first.emit('status')
    expect(closes).to.equal(0)
    second.emit('status')
    expect(closes).to.equal(1)
  })

  it('stays open after the end of its calls until it is closed', () => {
    const call = new EventEmitter()
    channel.hold(call)
    call.emit('status')
    expect(closes).to.equal(0)
  })
})
