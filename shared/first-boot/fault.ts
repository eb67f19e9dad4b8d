/** The reason why first-boot data is refused. The caller adds the name of the field to the message. */
export class FirstBootFault extends Error {}
