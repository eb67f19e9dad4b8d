import { expect } from 'chai'
import { browserProgram } from './open-browser.js'

describe('the browser for a login', () => {
  for (const [name, env, platform, program] of [
    ['xdg-open with an X display', { DISPLAY: ':0' }, 'linux', 'xdg-open'],
    ['xdg-open with a Wayland display', { WAYLAND_DISPLAY: 'wayland-0' }, 'linux', 'xdg-open'],
    ['none without a display', { DISPLAY: '' }, 'linux', undefined],
    ['open on macOS', {}, 'darwin', 'open'],
  ] as const)
    it(`is opened by ${name}`, () => expect(browserProgram(env, platform)).to.equal(program))
})
