import { expect } from 'chai'
import { once } from 'node:events'
import { duplexPair } from 'node:stream'
import { pino } from 'pino'
import { MemoryConnection } from './memory-connection.js'

const log = pino({ level: 'silent' })

describe('the connection over which a live move sends the memory of a guest', () => {
  it('sends data to the target only after release() was called', async () => {
    const [driver, inside] = duplexPair()
    const [outside, target] = duplexPair()
    const connection = new MemoryConnection(inside, outside, log)
    let received = ''
    target.on('data', (chunk: Buffer) => (received += chunk.toString()))
    driver.write('a')
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect([received, connection.isHeld]).to.deep.equal(['', true])
    connection.release()
    await once(target, 'data')
    expect([received, connection.isHeld]).to.deep.equal(['a', false])
    connection.close()
  })

  it('closes the driver’s end when the target hangs up, even before release() was called', async () => {
    const [driver, inside] = duplexPair()
    const [outside] = duplexPair()
    new MemoryConnection(inside, outside, log)
    driver.on('error', () => undefined)
    outside.destroy()
    await once(inside, 'close')
  })
})
