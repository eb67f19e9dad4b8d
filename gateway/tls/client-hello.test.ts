import { expect } from 'chai'
import fc from 'fast-check'
import { createServer, type AddressInfo } from 'node:net'
import { connect } from 'node:tls'
import { readProtocols } from './client-hello.js'

/** Returns the first bytes that a TLS client of Node sends. */
function helloOf(options: { ALPNProtocols?: string[]; servername?: string }): Promise<Buffer> {
  return new Promise((resolve) => {
    const server = createServer((socket) =>
      socket.once('data', (bytes) => {
        socket.destroy()
        server.close(() => resolve(bytes))
      }),
    )
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      connect({ host: '127.0.0.1', port, ...options }).on('error', () => undefined)
    })
  })
}

describe('the parser of the protocols in a TLS ClientHello', () => {
  it('finds the protocols that a client offers', async () => {
    const both = await helloOf({ ALPNProtocols: ['acme-tls/1', 'http/1.1'], servername: 'panel.example' })
    expect(readProtocols(both)).to.deep.equal(['acme-tls/1', 'http/1.1'])
    expect(readProtocols(await helloOf({}))).to.deep.equal([])
  })

  it('requests more bytes until the ClientHello is complete', async () => {
    const hello = await helloOf({ ALPNProtocols: ['acme-tls/1'] })
    for (let size = 0; size < hello.length; size++)
      expect(readProtocols(hello.subarray(0, size)), `${size}`).to.equal('more')
    expect(readProtocols(Buffer.concat([hello, Buffer.alloc(9)]))).to.deep.equal(['acme-tls/1'])
  })

  for (const [what, bytes] of [
    ['an HTTP request', Buffer.from('GET / HTTP/1.1\r\n')],
    ['a TLS record that is too long', Buffer.of(22, 3, 1, 255, 255)],
    ['an empty TLS record', Buffer.of(22, 3, 1, 0, 0)],
    ['a ClientHello that ends too early', Buffer.of(22, 3, 1, 0, 4, 1, 0, 0, 200)],
  ] as const)
    it(`finds no protocols in ${what}`, () => expect(readProtocols(bytes)).to.deep.equal([]))

  it('accepts any bytes without an exception', async () => {
    const hello = await helloOf({ ALPNProtocols: ['acme-tls/1'] })
    fc.assert(
      fc.property(fc.nat(hello.length - 1), fc.nat(255), (at, value) => {
        const changed = Buffer.from(hello)
        changed[at] = value
        expect(readProtocols(changed)).to.satisfy((result: unknown) => result === 'more' || Array.isArray(result))
      }),
    )
    fc.assert(fc.property(fc.uint8Array(), (bytes) => void readProtocols(Buffer.from(bytes))))
  })
})
