import { expect } from 'chai'
import { browserName } from './browser-name.ts'

const webkit = 'AppleWebKit/537.36 (KHTML, like Gecko)'
const iphone = 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)'

describe('the name of a browser', () => {
  for (const [name, userAgent] of [
    ['Chrome 131 · Windows', `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webkit} Chrome/131.0.0.0 Safari/537.36`],
    ['Edge 131 · Windows', `Mozilla/5.0 (Windows NT 10.0) ${webkit} Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0`],
    ['Chrome 131 · Android', `Mozilla/5.0 (Linux; Android 10; K) ${webkit} Chrome/131.0.0.0 Mobile Safari/537.36`],
    ['Firefox 133 · Linux', 'Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0'],
    ['Safari 18 · iOS', `${iphone} Version/18.1 Mobile/15E148 Safari/604.1`],
    ['Chrome 131 · iOS', `${iphone} CriOS/131.0.6778.73 Mobile/15E148 Safari/604.1`],
    ['curl/8.5.0', 'curl/8.5.0'],
    ['–', ''],
  ] as const)
    it(`is "${name}" for the user agent "${userAgent}"`, () => expect(browserName(userAgent)).to.equal(name))
})
