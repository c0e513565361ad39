// The Azure Function with an event hub message that contains LINE twice.
import forward from "../../../../infra/edge/azure/forward/index.mjs";

const line = JSON.parse(process.env.LINE);
await forward({ log: console }, [{ records: [line, line] }, { records: [{ ...line, category: "FrontDoorHealthProbeLog" }] }]);
