import { expect } from 'chai'
import { describeFailure } from './plan-failure.js'

const sslError = (text: string): string =>
  `write EPROTO 802C024F9D7F0000:error:0A00010B:SSL routines:ssl3_get_record:${text}:../ssl3_record.c:350:\n`

describe('the message about a gateway that cannot be reached', () => {
  for (const [url, code, message, shown] of [
    [
      'https://127.0.0.1:8080',
      'EPROTO',
      sslError('wrong version number'),
      'https://127.0.0.1:8080 does not use TLS: try http://127.0.0.1:8080',
    ],
    [
      'https://panel.example.com/berth',
      'EPROTO',
      sslError('packet length too long'),
      'https://panel.example.com/berth does not use TLS: check the port',
    ],
    [
      'https://127.0.0.1:8443',
      'EPROTO',
      sslError('tlsv1 alert protocol version'),
      'cannot reach https://127.0.0.1:8443: TLS failed: tlsv1 alert protocol version',
    ],
    [
      'https://panel.invalid:8443',
      'ENOTFOUND',
      'getaddrinfo ENOTFOUND panel.invalid',
      'the name panel.invalid cannot be resolved',
    ],
    [
      'http://other.invalid',
      'EAI_AGAIN',
      'getaddrinfo EAI_AGAIN other.invalid',
      'the name other.invalid cannot be resolved',
    ],
    [
      'http://127.0.0.1:1',
      'ECONNREFUSED',
      'connect ECONNREFUSED 127.0.0.1:1',
      'cannot reach http://127.0.0.1:1: the connection was refused',
    ],
    ['http://127.0.0.1:1', undefined, 'socket hang up', 'cannot reach http://127.0.0.1:1: socket hang up'],
  ] as const)
    it(`is “${shown}”`, () => expect(describeFailure(url, { ...(code && { code }), message })).to.equal(shown))
})
